//! Backups whose cluster was deleted while a member made them.
//!
//! Nobody reconciles a cluster that does not exist, so a task of its own gives them up. It begins again in
//! each process, and does nothing in one that does not lead.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use operator_core::{
    ControllerBuilder, ObjectKey, Outcome,
    error::{WriteError, chain},
    events::Events,
    fence::Fence,
    informer::Informer,
    status::StatusWriter,
    writer::Writer,
};
use tokio::{sync::Notify, time::sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::{cluster_of, progress, record_end, status::abandoned};
use crate::api::{PostgresBackup, PostgresCluster};

/// Time until orphans are looked at again that could not be given up.
const RETRY: Duration = Duration::from_secs(10);

/// Gives up the backups of deleted clusters.
pub(super) struct Orphans {
    backups: Informer<PostgresBackup>,
    clusters: Writer<PostgresCluster>,
    status: Arc<StatusWriter<PostgresBackup>>,
    events: Events,
    fence: Fence,
}

impl Orphans {
    /// Starts the task. It looks at the backups when a cluster disappears, and when a backup begins.
    pub(super) fn start(
        builder: &mut ControllerBuilder<'_, PostgresCluster>,
        backups: &Informer<PostgresBackup>,
        status: Arc<StatusWriter<PostgresBackup>>,
    ) -> AbortOnDropHandle<()> {
        let clusters = builder.objects().clone();
        let changed = Arc::new(Notify::new());
        let (deleted, began) = (changed.clone(), changed.clone());
        builder.watches(&clusters, move |change| {
            if change.new.is_none() {
                deleted.notify_one();
            }
            Vec::new()
        });
        builder.watches(backups, move |change| {
            if change.new.as_ref().is_some_and(|backup| progress::active(backup).is_some()) {
                began.notify_one();
            }
            Vec::new()
        });
        let orphans = Self {
            backups: backups.clone(),
            clusters: builder.writer(clusters),
            status,
            events: builder.events(),
            fence: builder.fence(),
        };
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                changed.notified().await;
                while !orphans.give_up().await {
                    sleep(RETRY).await;
                }
            }
        }))
    }

    /// Gives up the backups whose cluster does not exist. Returns whether none is left.
    async fn give_up(&self) -> bool {
        let mut backups = self.backups.store().list();
        backups.retain(|backup| {
            progress::active(backup).is_some() && self.clusters.get(&cluster_of(backup)).is_none()
        });
        if backups.is_empty() {
            return true;
        }
        // Another replica leads.
        if self.fence.check().is_err() {
            return false;
        }
        let mut is_done = true;
        for backup in &backups {
            match self.give_up_one(backup).await {
                Ok(outcome) => is_done &= outcome == Outcome::Done,
                Err(error) => {
                    is_done = false;
                    let (object, error) = (ObjectKey::of(backup.as_ref()), chain(&error));
                    debug!(%object, error, "cannot give up a backup whose cluster was deleted");
                }
            }
        }
        is_done
    }

    /// Gives up a backup, unless its cluster exists, or another one of the name, which does it.
    async fn give_up_one(&self, backup: &PostgresBackup) -> Result<Outcome, WriteError> {
        // The cache of the clusters can be older than that of the backups.
        if self.clusters.read(&cluster_of(backup)).await?.is_some() {
            return Ok(Outcome::Done);
        }
        let now = Timestamp::now();
        let outcome = self.status.write(backup, |known| abandoned(known, now)).await?;
        if let Some(latest) = self.backups.store().get(&ObjectKey::of(backup)) {
            record_end(&self.events, backup, &latest);
        }
        Ok(outcome)
    }
}
