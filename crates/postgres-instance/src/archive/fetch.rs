//! Restores files of `pg_wal` to a standby.

use std::time::Duration;

use postgres_archive::{Archive, Restore};
use postgres_model::{instance::Moment, wal_file::WalFileName};
use tokio::time::timeout;
use tracing::warn;

use super::{
    Archiving,
    context::{Context, Role},
    protocol::Answer,
};
use crate::clock::now;

/// How long a restore may take. A standby streams from its primary instead.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// How long a store that did not answer is not asked again. Each start of a standby asks for several
/// files, and streaming begins after all of the answers.
const OUTAGE: Duration = Duration::from_secs(30);

/// Until when the store is not asked.
#[derive(Default)]
pub(super) struct Outage {
    until: Moment,
}

impl Archiving {
    /// Restores a file to `pg_wal`, if this member may have it.
    pub(super) async fn restore(&self, name: WalFileName, file: &str) -> Answer {
        let context = self.context.borrow().clone();
        if let Role::Recovering(recovery) = &context.role {
            return self.recover(recovery, name, file).await;
        }
        if !self.may_restore(name) {
            return Answer::Missing;
        }
        if now() < self.outage.lock().until {
            return Answer::Failed("the object store did not answer a moment ago".to_owned());
        }
        let answer = timeout(PATIENCE, self.fetch(&context, name, file)).await;
        let answer = answer.unwrap_or_else(|_| Answer::Failed(format!("{name} did not arrive in time")));
        match answer {
            Answer::Done => self.permit(name, file),
            Answer::Missing => answer,
            Answer::Failed(reason) => {
                warn!(%name, reason, "cannot restore a file from the archive");
                self.outage.lock().until = now() + OUTAGE;
                Answer::Failed(reason)
            }
        }
    }

    async fn fetch(&self, context: &Context, name: WalFileName, file: &str) -> Answer {
        let archive = match self.connection.reader(context).await {
            Ok(archive) => archive,
            Err(failure) => return Answer::Failed(failure.message),
        };
        self.restore_from(&archive, name, file).await
    }

    /// Restores a file to `pg_wal` from an archive.
    pub(super) async fn restore_from(&self, archive: &Archive, name: WalFileName, file: &str) -> Answer {
        match archive.restore_wal(name, &self.wal.join(file)).await {
            Ok(Restore::Restored) => Answer::Done,
            Ok(Restore::NotFound) => Answer::Missing,
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    /// Returns whether the member may restore a file. The size of segments is that of any of them.
    fn may_restore(&self, name: WalFileName) -> bool {
        let context = self.context.borrow();
        context.settings.is_some() && context.role.may_restore(name, self.size_of_segments())
    }

    /// Lets PostgreSQL have a file that is in `pg_wal`, unless the member was sealed meanwhile.
    ///
    /// Nothing else runs between the look at the role and the note of the position, so a seal comes
    /// either before both or after both.
    fn permit(&self, name: WalFileName, file: &str) -> Answer {
        if !self.may_restore(name) {
            return Answer::Missing;
        }
        if let (WalFileName::Segment(segment), Role::Follower(_)) = (name, &self.context.borrow().role) {
            let size = self.size_of_segment(file);
            let end = segment.next(size).and_then(|next| next.start(size));
            let mut until = self.restored_until.lock();
            *until = (*until).max(end);
        }
        Answer::Done
    }
}
