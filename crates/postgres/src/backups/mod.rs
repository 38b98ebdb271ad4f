//! Reconciles the PostgresBackups of a cluster, and creates those of its schedules and the first one
//! after a recovery.
//!
//! The controller of the cluster does it, because it has the connections to the members. The status of
//! a backup is stored before its member is asked for anything.

mod creation;
mod expired;
mod first;
mod orphans;
mod progress;
mod schedule;
mod status;
mod summary;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use operator_core::{
    ControllerBuilder, ObjectKey, Outcome,
    events::Events,
    informer::{Change, Index, Informer, Selection},
    kind::is_deleting,
    status::StatusWriter,
    writer::{DeletePrecondition, Writer},
};
use postgres_model::report::InstanceReport;
use tokio_util::task::AbortOnDropHandle;

use self::{expired::expired, orphans::Orphans, progress::Inputs, summary::is_of};
pub(crate) use self::{
    progress::Request,
    summary::{Summary, last_of, with_later_times},
};
use crate::{
    api::{PostgresBackup, PostgresBackupPhase, PostgresCluster},
    error::Error,
    live_owner::LiveOwner,
    membership::{Membership, Serial},
    reasons,
};

/// Label of a backup that a schedule has created.
pub const SCHEDULE_LABEL: &str = "lukeb0nd.com/schedule";
/// Time between two looks at a backup that has not ended.
const LOOK: Duration = Duration::from_secs(5);

/// Reads and writes PostgresBackups.
pub(crate) struct BackupObjects {
    backups: Informer<PostgresBackup>,
    by_cluster: Index<PostgresBackup, ObjectKey>,
    status: Arc<StatusWriter<PostgresBackup>>,
    _orphans: AbortOnDropHandle<()>,
    writer: Writer<PostgresBackup>,
    events: Events,
}

/// What the backups of a cluster depend on.
pub(crate) struct Members<'a> {
    pub(crate) membership: &'a Membership,
    pub(crate) reports: &'a BTreeMap<Serial, InstanceReport>,
    /// UIDs of the Pods.
    pub(crate) pods: BTreeMap<Serial, String>,
}

/// Result of a reconcile of backups.
pub(crate) struct Reconciled {
    pub(crate) summary: Summary,
    pub(crate) requests: Vec<(Serial, Request)>,
    pub(crate) failures: Vec<Error>,
    pub(crate) outcome: Outcome,
}

impl BackupObjects {
    /// Starts the informer. A cluster is reconciled when one of its backups changes.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, PostgresCluster>) -> Self {
        let backups = builder.informer::<PostgresBackup>(Selection::All);
        builder.watches(&backups, |change| match (&change.old, &change.new) {
            // Status writes are those of this controller.
            (Some(old), Some(new)) if old.metadata.generation == new.metadata.generation => Vec::new(),
            _ => clusters(change),
        });
        let by_cluster = backups.store().index(|backup: &PostgresBackup| vec![cluster_of(backup)]);
        let status = Arc::new(builder.status_of(&backups, |_| {}, clusters));
        Self {
            _orphans: Orphans::start(builder, &backups, status.clone()),
            by_cluster,
            status,
            writer: builder.writer(backups.clone()),
            events: builder.events(),
            backups,
        }
    }

    /// Returns a backup.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<PostgresBackup>> {
        self.backups.store().get(key)
    }

    /// Brings the backups of a cluster one step further.
    pub(crate) async fn reconcile(
        &self,
        owner: &LiveOwner<'_>,
        members: Members<'_>,
        now: Timestamp,
    ) -> Reconciled {
        let cluster = owner.cluster;
        let mut failures = Vec::new();
        let (schedules, next) = self.schedule(owner, now, &mut failures).await;
        let (first, retry) =
            self.create_first(owner, members.membership, now).await.unwrap_or_else(|error| {
                failures.push(error);
                (None, None)
            });
        failures.extend(self.proceed(cluster, &members, now).await);
        let backups = self.of(cluster);
        let inputs = inputs(cluster, &members, None, now);
        let requests = backups.iter().filter_map(|backup| inputs.request(backup)).collect();
        failures.extend(self.delete_expired(cluster, &members, &backups).await);
        let needs_look = backups.iter().any(|backup| progress::needs_look(backup, now));
        let look = if needs_look { Outcome::RequeueAfter(LOOK) } else { Outcome::Done };
        let retry_in = retry.and_then(|retry| Duration::try_from(retry.duration_since(now)).ok());
        let outcome = next.into_iter().chain(retry_in).map(Outcome::RequeueAfter).fold(look, Outcome::and);
        let summary = Summary { first, retry, ..Summary::of(cluster, &backups, schedules) };
        Reconciled { summary, requests, failures, outcome }
    }

    /// Stores the next status of each backup.
    async fn proceed(&self, cluster: &PostgresCluster, members: &Members<'_>, now: Timestamp) -> Vec<Error> {
        let mut failures = Vec::new();
        let backups = self.of(cluster);
        let mut active = backups.iter().find_map(|backup| progress::active(backup));
        for backup in &backups {
            let other = active.clone().filter(|active| *active != backup.name_any());
            let inputs = inputs(cluster, members, other, now);
            let written = self.status.write(backup, |known| inputs.next(known)).await;
            failures.extend(written.err().map(Error::Status));
            let Some(latest) = self.backups.store().get(&ObjectKey::of(backup.as_ref())) else { continue };
            active = active.or_else(|| progress::active(&latest));
            record_end(&self.events, backup, &latest);
        }
        failures
    }

    /// Deletes the objects of backups that [have expired](expired).
    async fn delete_expired(
        &self,
        cluster: &PostgresCluster,
        members: &Members<'_>,
        backups: &[Arc<PostgresBackup>],
    ) -> Vec<Error> {
        let mut failures = Vec::new();
        let primary = members.membership.failover.current.as_ref();
        let report = members.reports.values().find(|report| Some(&report.member) == primary);
        let inventory = report.and_then(|report| report.archive.as_ref()?.backups.as_ref());
        let oldest = inventory.and_then(|inventory| inventory.oldest.as_ref());
        for backup in expired(cluster, backups.iter(), oldest) {
            let deleted = self.writer.delete(backup, DeletePrecondition::Uid).await;
            failures.extend(deleted.err().map(Error::from_write));
        }
        failures
    }

    /// Returns the backups of a cluster, in the order in which they were created.
    fn of(&self, cluster: &PostgresCluster) -> Vec<Arc<PostgresBackup>> {
        let mut backups = self.by_cluster.get(&ObjectKey::of(cluster));
        backups.retain(|backup| !is_deleting(backup.as_ref()));
        backups.sort_by_key(|backup| {
            (backup.metadata.creation_timestamp.as_ref().map(|time| time.0), backup.name_any())
        });
        backups
    }
}

/// Records the end of a backup.
fn record_end(events: &Events, before: &PostgresBackup, after: &PostgresBackup) {
    let phase = |backup: &PostgresBackup| backup.status.clone().unwrap_or_default().phase;
    let status = after.status.clone().unwrap_or_default();
    if phase(before) == status.phase || !status.phase.is_final() {
        return;
    }
    let about = after.object_ref(&());
    if status.phase == PostgresBackupPhase::Completed {
        let note = format!("the backup {} of {} is complete", status.key, status.member);
        events.normal(about, reasons::BACKUP_DONE, "BackUp", &note);
    } else {
        events.warning(about, reasons::BACKUP_FAILED, "BackUp", &status.error);
    }
}

fn inputs<'a>(
    cluster: &'a PostgresCluster,
    members: &'a Members<'_>,
    other: Option<String>,
    now: Timestamp,
) -> Inputs<'a> {
    let Members { membership, reports, pods } = members;
    Inputs { cluster, membership, reports, pods, other, now }
}

/// Returns the clusters of a backup.
fn clusters(change: &Change<PostgresBackup>) -> Vec<ObjectKey> {
    change.states().map(|backup| cluster_of(backup)).collect()
}

/// Returns the cluster that a backup names.
fn cluster_of(backup: &PostgresBackup) -> ObjectKey {
    ObjectKey::namespaced(&backup.namespace().unwrap_or_default(), &backup.spec.cluster_ref.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn backup_belongs_to_the_cluster_that_it_names_in_its_namespace() {
        let backup = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup",
            "metadata": {"name": "first", "namespace": "shop"}, "spec": {"clusterRef": {"name": "db"}},
        });
        let backup = Some(Arc::new(serde_json::from_value(backup).unwrap()));
        let key = ObjectKey::namespaced("shop", "db");
        let change = Change { key: ObjectKey::namespaced("shop", "first"), old: None, new: backup };
        assert_eq!(clusters(&change), [key]);
    }
}
