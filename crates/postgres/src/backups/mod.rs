//! Reconciles the PostgresBackups of a cluster, and creates those of its schedules.
//!
//! The controller of the cluster does it, because it has the connections to the members. The status of
//! a backup is stored before its member is asked for anything.

mod progress;
mod schedule;
mod summary;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};
use operator_core::{
    ControllerBuilder, ObjectKey, Outcome,
    error::is_already_exists,
    events::Events,
    informer::{Change, Informer, Selection},
    kind::uid,
    status::StatusWriter,
    writer::{DeletePrecondition, Writer},
};
use postgres_model::report::InstanceReport;

use self::{progress::Inputs, schedule::Schedule};
pub(crate) use self::{progress::Request, summary::Summary};
use crate::{
    api::{
        BackupSchedule, ClusterRef, PostgresBackup, PostgresBackupPhase, PostgresBackupSpec, PostgresCluster,
        ScheduleStatus,
    },
    build::CLUSTER_LABEL,
    children::key,
    error::Error,
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
    status: StatusWriter<PostgresBackup>,
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
        Self {
            status: builder.status_of(&backups, |_| {}, clusters),
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
        cluster: &PostgresCluster,
        members: Members<'_>,
        now: Timestamp,
    ) -> Reconciled {
        let mut failures = Vec::new();
        let (schedules, next) = self.schedule(cluster, now, &mut failures).await;
        failures.extend(self.proceed(cluster, &members, now).await);
        let backups = self.of(cluster);
        let inputs = inputs(cluster, &members, None);
        let requests = backups.iter().filter_map(|backup| inputs.request(backup)).collect();
        failures.extend(self.delete_expired(cluster, &members, &backups).await);
        let is_active = backups.iter().any(|backup| progress::active(backup).is_some());
        let look = if is_active { Outcome::RequeueAfter(LOOK) } else { Outcome::Done };
        let outcome = look.and(next.map_or(Outcome::Done, Outcome::RequeueAfter));
        Reconciled { summary: Summary::of(cluster, &backups, schedules), requests, failures, outcome }
    }

    /// Stores the next status of each backup.
    async fn proceed(&self, cluster: &PostgresCluster, members: &Members<'_>, now: Timestamp) -> Vec<Error> {
        let mut failures = Vec::new();
        let backups = self.of(cluster);
        let mut active = backups.iter().find_map(|backup| progress::active(backup));
        for backup in &backups {
            let other = active.clone().filter(|active| *active != backup.name_any());
            let inputs = inputs(cluster, members, other);
            let written = self.status.write(backup, |known| inputs.next(known, now)).await;
            failures.extend(written.err().map(Error::Status));
            let Some(latest) = self.backups.store().get(&ObjectKey::of(backup.as_ref())) else { continue };
            active = active.or_else(|| progress::active(&latest));
            self.record_end(backup, &latest);
        }
        failures
    }

    /// Records the end of a backup.
    fn record_end(&self, before: &PostgresBackup, after: &PostgresBackup) {
        let phase = |backup: &PostgresBackup| backup.status.clone().unwrap_or_default().phase;
        let status = after.status.clone().unwrap_or_default();
        if phase(before) == status.phase || !status.phase.is_final() {
            return;
        }
        let about = after.object_ref(&());
        if status.phase == PostgresBackupPhase::Completed {
            let note = format!("the backup {} of {} is complete", status.key, status.member);
            self.events.normal(about, reasons::BACKUP_DONE, "BackUp", &note);
        } else {
            self.events.warning(about, reasons::BACKUP_FAILED, "BackUp", &status.error);
        }
    }

    /// Creates the backups that are due. Returns until when each schedule has made its backups, and the
    /// time until the next one.
    async fn schedule(
        &self,
        cluster: &PostgresCluster,
        now: Timestamp,
        failures: &mut Vec<Error>,
    ) -> (Vec<ScheduleStatus>, Option<Duration>) {
        let known = cluster.status.as_ref().map(|status| status.schedules.clone()).unwrap_or_default();
        let schedules = cluster.spec.backup.iter().flat_map(|backup| &backup.schedules);
        let (mut statuses, mut next) = (Vec::new(), None);
        for schedule in schedules {
            let known = known.iter().find(|known| known.name == schedule.name);
            let Ok(parsed) = Schedule::parse(schedule) else { continue };
            // A new schedule, and one that was suspended, begin now.
            let last = known.filter(|_| !schedule.suspend).map_or(now, |known| known.last_time.0);
            let due = parsed.due(last, now).filter(|_| !schedule.suspend && !cluster.spec.paused);
            let created = match due {
                Some(time) => self.create(cluster, schedule, time).await,
                None => Ok(()),
            };
            let last = match (created, due) {
                (Ok(()), Some(time)) => time,
                (Ok(()), None) => known.map_or(last, |known| known.last_time.0),
                (Err(error), _) => {
                    failures.push(error);
                    last
                }
            };
            statuses.push(ScheduleStatus { name: schedule.name.clone(), last_time: Time(last) });
            let wait = parsed.next(now).filter(|_| !schedule.suspend).map(|time| time.duration_since(now));
            let wait = wait.and_then(|wait| Duration::try_from(wait).ok());
            next = next.into_iter().chain(wait).min();
        }
        (statuses, next)
    }

    async fn create(
        &self,
        cluster: &PostgresCluster,
        schedule: &BackupSchedule,
        time: Timestamp,
    ) -> Result<(), Error> {
        let name = schedule::name(&cluster.name_any(), &schedule.name, time);
        let own = key(cluster, &name);
        if self.backups.store().get(&own).is_some() {
            return Ok(());
        }
        let spec = PostgresBackupSpec {
            cluster_ref: ClusterRef { name: cluster.name_any() },
            target: schedule.target,
            immediate_checkpoint: false,
        };
        let mut backup = PostgresBackup::new(&name, spec);
        backup.metadata.namespace = cluster.namespace();
        let labels = [(CLUSTER_LABEL, cluster.name_any()), (SCHEDULE_LABEL, schedule.name.clone())];
        backup.metadata.labels = Some(labels.map(|(name, value)| (name.to_owned(), value)).into());
        match self.writer.create(&own, &backup).await {
            // An earlier reconcile has created it.
            Err(error) if error.api_error().is_some_and(is_already_exists) => Ok(()),
            result => result.map_err(Error::from_write),
        }
    }

    /// Deletes the objects of schedules whose backups have left the store, and of failed ones that began
    /// before the oldest backup there.
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
        let Some(oldest) = inventory.and_then(|inventory| inventory.oldest.as_ref()) else { return failures };
        let is_expired = |backup: &&Arc<PostgresBackup>| {
            let status = backup.status.clone().unwrap_or_default();
            let is_own = status.cluster_uid == uid(cluster);
            let is_scheduled = backup.labels().contains_key(SCHEDULE_LABEL);
            // Identifiers have the order of their times.
            is_own
                && is_scheduled
                && status.phase.is_final()
                && !status.key.is_empty()
                && status.key < *oldest
        };
        for backup in backups.iter().filter(is_expired) {
            let deleted = self.writer.delete(backup, DeletePrecondition::Uid).await;
            failures.extend(deleted.err().map(Error::from_write));
        }
        failures
    }

    /// Returns the backups of a cluster, in the order in which they were created.
    fn of(&self, cluster: &PostgresCluster) -> Vec<Arc<PostgresBackup>> {
        let mut backups = self.backups.store().list();
        let name = cluster.name_any();
        backups.retain(|backup| {
            backup.spec.cluster_ref.name == name
                && backup.namespace() == cluster.namespace()
                && backup.metadata.deletion_timestamp.is_none()
        });
        backups.sort_by_key(|backup| {
            (backup.metadata.creation_timestamp.as_ref().map(|time| time.0), backup.name_any())
        });
        backups
    }
}

fn inputs<'a>(cluster: &'a PostgresCluster, members: &'a Members<'_>, other: Option<String>) -> Inputs<'a> {
    let Members { membership, reports, pods } = members;
    Inputs { cluster, membership, reports, pods, other }
}

/// Returns the clusters of a backup.
fn clusters(change: &Change<PostgresBackup>) -> Vec<ObjectKey> {
    let cluster = |backup: &Arc<PostgresBackup>| {
        let namespace = backup.namespace().unwrap_or_default();
        ObjectKey::namespaced(&namespace, &backup.spec.cluster_ref.name)
    };
    change.old.iter().chain(&change.new).map(cluster).collect()
}
