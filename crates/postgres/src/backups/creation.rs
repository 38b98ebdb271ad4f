//! Creates the backups of schedules, and the first one after a recovery.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use operator_core::error::is_already_exists;

use super::{
    BackupObjects, SCHEDULE_LABEL,
    first::{self, Attempt},
    schedule::{self, Schedule},
};
use crate::{
    api::{BackupSchedule, ClusterRef, PostgresBackup, PostgresBackupSpec, ScheduleStatus},
    build::CLUSTER_LABEL,
    children::key,
    error::Error,
    live_owner::LiveOwner,
    membership::Membership,
};

impl BackupObjects {
    /// Creates the backups that are due. Returns until when each schedule has made its backups, and the
    /// time until the next one.
    pub(super) async fn schedule(
        &self,
        owner: &LiveOwner<'_>,
        now: Timestamp,
        failures: &mut Vec<Error>,
    ) -> (Vec<ScheduleStatus>, Option<Duration>) {
        let cluster = owner.cluster;
        let known = cluster.status.as_ref().map(|status| status.schedules.clone()).unwrap_or_default();
        // One that is suspended is forgotten, so that it begins again like a new one.
        let schedules = cluster.spec.backup.iter().flat_map(|backup| &backup.schedules);
        let schedules = schedules.filter(|schedule| !schedule.suspend);
        let (mut statuses, mut next) = (Vec::new(), None);
        for schedule in schedules {
            let known = known.iter().find(|known| known.name == schedule.name);
            let Ok(parsed) = Schedule::parse(schedule) else { continue };
            let last = known.map_or(now, |known| known.last_time.0);
            let due = parsed.due(last, now).filter(|_| !cluster.spec.paused && !cluster.spec.hibernated);
            let created = match due {
                Some(time) => self.create_scheduled(owner, schedule, time).await,
                None => Ok(()),
            };
            let last = match (created, due) {
                (Ok(()), Some(time)) => time,
                (Ok(()), None) => last,
                (Err(error), _) => {
                    failures.push(error);
                    last
                }
            };
            statuses.push(ScheduleStatus { name: schedule.name.clone(), last_time: Time(last) });
            let wait = parsed.next(now).map(|time| time.duration_since(now));
            let wait = wait.and_then(|wait| Duration::try_from(wait).ok());
            next = next.into_iter().chain(wait).min();
        }
        (statuses, next)
    }

    /// Creates the backup of a schedule at a time.
    async fn create_scheduled(
        &self,
        owner: &LiveOwner<'_>,
        schedule: &BackupSchedule,
        time: Timestamp,
    ) -> Result<(), Error> {
        let cluster = owner.cluster.name_any();
        let spec = PostgresBackupSpec {
            cluster_ref: ClusterRef { name: cluster.clone() },
            backup_type: schedule.backup_type,
            target: schedule.target,
            immediate_checkpoint: false,
        };
        let mut backup = PostgresBackup::new(&schedule::name(&cluster, &schedule.name, time), spec);
        backup.labels_mut().insert(SCHEDULE_LABEL.to_owned(), schedule.name.clone());
        self.create(owner, backup).await
    }

    /// Creates the first backup after a recovery, if it is due. Returns its name, or when it is due.
    pub(super) async fn create_first(
        &self,
        owner: &LiveOwner<'_>,
        membership: &Membership,
        now: Timestamp,
    ) -> Result<(Option<String>, Option<Timestamp>), Error> {
        let cluster = owner.cluster;
        match first::next_attempt(cluster, membership, &self.of(cluster)) {
            None => Ok((None, None)),
            Some(Attempt { due: Some(due), .. }) if due > now => Ok((None, Some(due))),
            Some(Attempt { name, .. }) => {
                self.create(owner, PostgresBackup::new(&name, first::spec(cluster))).await?;
                Ok((Some(name), None))
            }
        }
    }

    /// Creates a backup of a cluster, unless an earlier reconcile has created it.
    async fn create(&self, owner: &LiveOwner<'_>, mut backup: PostgresBackup) -> Result<(), Error> {
        let cluster = owner.cluster;
        let own = key(cluster, &backup.name_any());
        if self.backups.store().get(&own).is_some() {
            return Ok(());
        }
        owner.confirm().await?;
        backup.metadata.namespace = cluster.namespace();
        backup.labels_mut().insert(CLUSTER_LABEL.to_owned(), cluster.name_any());
        match self.writer.create(&own, &backup).await {
            Err(error) if error.api_error().is_some_and(is_already_exists) => Ok(()),
            result => result.map_err(Error::from_write),
        }
    }
}
