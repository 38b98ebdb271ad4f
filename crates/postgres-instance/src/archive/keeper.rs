//! Claims the archive for the cluster as soon as there is a primary, so that settings that do not work
//! are reported before the first segment is full.

use std::{sync::Arc, time::Duration};

use postgres_model::report::ArchiveFailure;
use tokio::time::timeout;
use tracing::error;

use super::{
    Archiving,
    context::{Context, Role},
};

/// Time between two looks: at the mounted Secrets, and at the segment to report.
const LOOK: Duration = Duration::from_secs(20);
/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(3);

/// Looks after the archive for ever.
pub(super) async fn run(archiving: Arc<Archiving>) {
    let mut contexts = archiving.context.subscribe();
    let mut kept: Option<Context> = None;
    loop {
        let context = contexts.borrow_and_update().clone();
        let archives = context.settings.is_some()
            && context.system.is_some()
            && matches!(context.role, Role::Primary(_));
        let mut pause = LOOK;
        if archives {
            let is_new = kept.as_ref() != Some(&context);
            let failure = archiving.set_up(&context, is_new).await.err();
            pause = if failure.is_some() { RETRY } else { LOOK };
            kept = failure.is_none().then_some(context);
            archiving.state.send_if_modified(|state| {
                let is_new = state.set_up(failure);
                if let (true, Some(failure)) = (is_new, &state.report.failure) {
                    error!(error = failure.message, "cannot use the archive; trying again");
                }
                state.publish_last() || is_new
            });
        } else {
            kept = None;
        }
        if matches!(timeout(pause, contexts.changed()).await, Ok(Err(_))) {
            return;
        }
    }
}

impl Archiving {
    /// Claims the archive, and sends the histories of a new primary.
    async fn set_up(&self, context: &Context, is_new: bool) -> Result<(), ArchiveFailure> {
        let archive = self.connection.writer(context).await?;
        if is_new {
            self.push_histories(&archive, context).await?;
            self.push_unmarked(&archive, context).await?;
        }
        Ok(())
    }
}
