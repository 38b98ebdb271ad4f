//! What the status of a cluster says about its backups. Pure functions.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use operator_core::{conditions::NewCondition, kind::uid};
use postgres_model::system_identifier::SystemIdentifier;

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
    /// Name of the first backup after a recovery, if it exists now and the status does not have it.
    pub(crate) first: Option<String>,
    /// When a failed first backup is repeated.
    pub(crate) retry: Option<Timestamp>,
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
            let status = backup.status.as_ref()?;
            Some(LastBackupStatus {
                name: backup.name_any(),
                key: status.key.clone(),
                stopped_at: stopped(backup)?,
                system_id: status.system_id,
            })
        });
        // The object of the last backup can be deleted; the backup stays.
        let system = cluster.status.as_ref().and_then(|status| status.system_id);
        let last = last_of(known, found, system);
        let failed = ended(Phase::Failed).filter(|backup| {
            let last = last.as_ref().map(|last| last.stopped_at.0);
            stopped(backup).map(|time| time.0) > last
        });
        let failure = failed.map(|backup| {
            let error = backup.status.clone().unwrap_or_default().error;
            format!("{}: {error}", backup.name_any())
        });
        Self { last, failure, schedules, first: None, retry: None }
    }

    /// Returns why there is no backup, and when the next one begins.
    fn describe_none(&self) -> String {
        let Some(failure) = &self.failure else {
            return "there is no backup yet: create a PostgresBackup, or wait for a schedule".to_owned();
        };
        let retry = self.retry.map(|retry| format!("; it is repeated at {}", retry.strftime("%FT%TZ")));
        format!("there is no backup yet; {failure}{}", retry.unwrap_or_default())
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
            return is_false(reasons::NEVER, self.describe_none());
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

/// Returns the last of these backups that is one of this database.
pub(crate) fn last_of(
    known: Option<LastBackupStatus>,
    found: Option<LastBackupStatus>,
    database: Option<SystemIdentifier>,
) -> Option<LastBackupStatus> {
    let backups = known.into_iter().chain(found);
    backups.filter(|backup| is_of(backup.system_id, database)).max_by_key(|backup| backup.stopped_at.0)
}

/// Returns schedules with the times of those that are known, where these are later.
pub(crate) fn with_later_times(
    mut schedules: Vec<ScheduleStatus>,
    known: &[ScheduleStatus],
) -> Vec<ScheduleStatus> {
    for schedule in &mut schedules {
        let same = known.iter().find(|known| known.name == schedule.name);
        if let Some(later) = same.filter(|known| known.last_time > schedule.last_time) {
            schedule.last_time.clone_from(&later.last_time);
        }
    }
    schedules
}

/// Returns whether a backup is one of this database, and not of the one before an upgrade to another major version.
pub(super) fn is_of(backup: Option<SystemIdentifier>, database: Option<SystemIdentifier>) -> bool {
    backup.is_none() || database.is_none() || backup == database
}

fn stopped(backup: &PostgresBackup) -> Option<Time> {
    backup.status.as_ref()?.stopped_at.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_without_a_backup_tells_why_and_what_is_next() {
        let mut summary = Summary::default();
        assert!(summary.describe_none().ends_with("create a PostgresBackup, or wait for a schedule"));
        summary.failure = Some("db-recovered-2c1f1c4e: no space".to_owned());
        let failed = "there is no backup yet; db-recovered-2c1f1c4e: no space";
        assert_eq!(summary.describe_none(), failed);
        summary.retry = Some("2026-11-25T10:01:00.5Z".parse().unwrap());
        assert_eq!(summary.describe_none(), format!("{failed}; it is repeated at 2026-11-25T10:01:00Z"));
    }

    #[test]
    fn schedule_does_not_go_back_when_a_later_time_is_known() {
        let schedule = |name: &str, day: u8| -> ScheduleStatus {
            let last_time = format!("2026-01-0{day}T00:00:00Z").parse().map(Time).unwrap();
            ScheduleStatus { name: name.to_owned(), last_time }
        };
        let known = [schedule("daily", 2), schedule("hourly", 1), schedule("removed", 2)];
        let found = vec![schedule("daily", 1), schedule("hourly", 2), schedule("new", 1)];
        let expected = [schedule("daily", 2), schedule("hourly", 2), schedule("new", 1)];
        assert_eq!(with_later_times(found, &known), expected);
    }
}
