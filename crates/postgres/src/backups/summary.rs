//! What the status of a cluster says about its backups. Pure functions.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use operator_core::{conditions::NewCondition, kind::uid};

use super::schedule::Schedule;
use crate::{
    api::{LastBackupStatus, PostgresBackup, PostgresBackupPhase as Phase, PostgresCluster, ScheduleStatus},
    condition_types::BACKUP_RECENT,
    reasons,
};

/// What the status of a cluster says about its backups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// The last complete backup.
    pub(crate) last: Option<LastBackupStatus>,
    /// Why a later one failed.
    pub(crate) failure: Option<String>,
    /// Until when each schedule has made its backups.
    pub(crate) schedules: Vec<ScheduleStatus>,
}

impl Summary {
    /// Summarizes the backups of a cluster.
    pub(super) fn of(
        cluster: &PostgresCluster,
        backups: &[impl AsRef<PostgresBackup>],
        schedules: Vec<ScheduleStatus>,
    ) -> Self {
        let ended = |phase| {
            let own = backups.iter().map(AsRef::as_ref).filter(move |backup| {
                backup
                    .status
                    .as_ref()
                    .is_some_and(|status| status.phase == phase && status.cluster_uid == uid(cluster))
            });
            own.max_by_key(|backup| stopped(backup).map(|time| time.0))
        };
        let known = cluster.status.as_ref().and_then(|status| status.last_backup.clone());
        let found = ended(Phase::Completed).and_then(|backup| {
            let key = backup.status.as_ref()?.key.clone();
            Some(LastBackupStatus { name: backup.name_any(), key, stopped_at: stopped(backup)? })
        });
        // The object of the last backup can be deleted; the backup stays.
        let last = known.into_iter().chain(found).max_by_key(|backup| backup.stopped_at.0);
        let failed = ended(Phase::Failed).filter(|backup| {
            let last = last.as_ref().map(|last| last.stopped_at.0);
            stopped(backup).map(|time| time.0) > last
        });
        let failure = failed.map(|backup| {
            let error = backup.status.clone().unwrap_or_default().error;
            format!("{}: {error}", backup.name_any())
        });
        Self { last, failure, schedules }
    }

    /// True if the last backup is as recent as the schedules say.
    pub(crate) fn condition(&self, cluster: &PostgresCluster, now: Timestamp) -> NewCondition {
        let is_false = |reason, message| NewCondition::is_false(BACKUP_RECENT, reason, message);
        let is_true = |message| NewCondition::is_true(BACKUP_RECENT, reasons::AS_SPECIFIED, message);
        let Some(backup) = &cluster.spec.backup else {
            return is_false(reasons::NOT_CONFIGURED, "spec.backup is not set".to_owned());
        };
        let mut shortest: Option<SignedDuration> = None;
        for schedule in backup.schedules.iter().filter(|schedule| !schedule.suspend) {
            match Schedule::parse(schedule) {
                Ok(parsed) => {
                    let interval = parsed.interval(now);
                    shortest = shortest.map_or(interval, |known| interval.map(|new| new.min(known)));
                }
                Err(error) => {
                    let message = format!("the schedule {} makes no backups: {error}", schedule.name);
                    return is_false(reasons::INVALID_SCHEDULE, message);
                }
            }
        }
        let Some(last) = &self.last else {
            let message = self.failure.clone().map_or_else(
                || "there is no backup yet: create a PostgresBackup, or wait for a schedule".to_owned(),
                |failure| format!("there is no backup yet; {failure}"),
            );
            return is_false(reasons::NEVER, message);
        };
        let age = now.duration_since(last.stopped_at.0);
        if shortest.is_none_or(|interval| age <= interval.saturating_mul(2)) {
            return is_true(format!("the backup {} is the last one", last.key));
        }
        match &self.failure {
            Some(failure) => is_false(reasons::LAST_BACKUP_FAILED, failure.clone()),
            None => is_false(
                reasons::STALE,
                format!("the last backup {} is older than two times of the schedule", last.key),
            ),
        }
    }
}

fn stopped(backup: &PostgresBackup) -> Option<Time> {
    backup.status.as_ref()?.stopped_at.clone()
}
