//! The first backup of a cluster that was recovered, or upgraded to another major version. Pure functions.
//!
//! The archive of such a cluster begins with WAL that nothing can be recovered from without a base
//! backup.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use operator_core::kind::uid;

use crate::{
    api::{
        BackupTarget, BackupType, ClusterRef, PostgresBackup, PostgresBackupPhase, PostgresBackupSpec,
        PostgresCluster,
    },
    membership::Membership,
};

/// Digits of the UID in the name. A former cluster of the name may have left a backup.
const DIGITS: usize = 8;
/// Word in the names of the first backups after a recovery.
const RECOVERED: &str = "recovered";
/// Time after which a failed first backup is repeated. It doubles each time.
const DELAY: SignedDuration = SignedDuration::from_mins(1);
/// Longest time after which a failed first backup is repeated.
const LONGEST_DELAY: SignedDuration = SignedDuration::from_hours(6);

/// A first backup that the cluster lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) name: String,
    /// When it is created. `None`: now.
    pub(super) due: Option<Timestamp>,
}

/// Returns the next attempt at the first backup of a cluster, until it has a backup.
///
/// The status remembers the last attempt. Another one follows if that failed, and none if a person has
/// deleted it.
pub(super) fn next_attempt(
    cluster: &PostgresCluster,
    membership: &Membership,
    backups: &[impl AsRef<PostgresBackup>],
) -> Option<Attempt> {
    let Origin { word, last } = Origin::of(membership)?;
    let has_backup = cluster.status.as_ref().is_some_and(|status| status.last_backup.is_some());
    if has_backup || cluster.spec.backup.is_none() || cluster.spec.paused {
        return None;
    }
    if last.is_empty() {
        return Some(Attempt { name: name(cluster, &word, 1), due: None });
    }
    let number = number_of(cluster, &word, last)?;
    let last = backups.iter().map(AsRef::as_ref).find(|backup| backup.name_any() == last)?;
    let status = last.status.as_ref().filter(|status| status.phase == PostgresBackupPhase::Failed)?;
    let due = status.stopped_at.as_ref()?.0.checked_add(delay(number)).ok()?;
    Some(Attempt { name: name(cluster, &word, number.saturating_add(1)), due: Some(due) })
}

/// Where the database comes from that lacks a backup.
struct Origin<'a> {
    /// Word in the names of its first backups.
    word: String,
    /// Name of the last attempt. Empty if there was none.
    last: &'a str,
}

impl<'a> Origin<'a> {
    fn of(membership: &'a Membership) -> Option<Self> {
        let upgrade = membership.upgrade.as_ref().filter(|upgrade| upgrade.done);
        if let Some(upgrade) = upgrade {
            return Some(Self { word: upgraded(upgrade.to_major()?), last: &upgrade.first_backup });
        }
        let recovery = membership.recovery.as_ref().filter(|recovery| recovery.done)?;
        Some(Self { word: RECOVERED.to_owned(), last: &recovery.first_backup })
    }
}

fn upgraded(major: u16) -> String {
    format!("upgraded-{major}")
}

/// Returns how long an attempt waits after this one has failed.
fn delay(number: u32) -> SignedDuration {
    let factor = 2_i32.saturating_pow(number.saturating_sub(1));
    DELAY.saturating_mul(factor).min(LONGEST_DELAY)
}

/// Returns the name of an attempt.
fn name(cluster: &PostgresCluster, word: &str, number: u32) -> String {
    let digits: String = uid(cluster).chars().take(DIGITS).collect();
    let first = format!("{}-{word}-{digits}", cluster.name_any());
    if number > 1 { format!("{first}-{number}") } else { first }
}

/// Returns the number of an attempt with this name. `None` if it is another backup.
pub(super) fn number(cluster: &PostgresCluster, other: &str) -> Option<u32> {
    let upgrade = cluster.status.as_ref().and_then(|status| status.major_upgrade.as_ref()?.to_major());
    let words = [Some(RECOVERED.to_owned()), upgrade.map(upgraded)];
    words.into_iter().flatten().find_map(|word| number_of(cluster, &word, other))
}

fn number_of(cluster: &PostgresCluster, word: &str, other: &str) -> Option<u32> {
    let number = match other.strip_prefix(&name(cluster, word, 1))? {
        "" => 1,
        suffix => suffix.strip_prefix('-')?.parse().ok()?,
    };
    (name(cluster, word, number) == other).then_some(number)
}

/// Returns the spec of the first backup. It begins with a checkpoint at full speed: until it is complete,
/// nothing can be recovered.
pub(super) fn spec(cluster: &PostgresCluster) -> PostgresBackupSpec {
    PostgresBackupSpec {
        cluster_ref: ClusterRef { name: cluster.name_any() },
        backup_type: BackupType::Full,
        target: BackupTarget::PreferStandby,
        immediate_checkpoint: true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::api::fixture::cluster;

    fn store() -> Value {
        let secret = |key: &str| json!({"name": "store", "key": key});
        json!({
            "url": "s3://backups", "serverName": "old",
            "credentials": {"accessKeyID": secret("id"), "secretAccessKey": secret("key")},
        })
    }

    /// Returns a cluster with these fields of the spec and of the status.
    fn with(spec: &Value, status: Value) -> PostgresCluster {
        let mut cluster = cluster(spec);
        cluster.metadata.uid = Some("2c1f1c4e-0000".to_owned());
        cluster.status = Some(serde_json::from_value(status).unwrap());
        cluster
    }

    /// Returns the next attempt, after this backup of a person or of the controller.
    fn next(spec: &Value, status: Value, backup: Option<(&str, Value)>) -> Option<(String, Option<String>)> {
        let cluster = with(spec, status);
        let backup = backup.map(|(name, status)| -> Arc<PostgresBackup> {
            let backup = json!({
                "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup",
                "metadata": {"name": name}, "spec": {"clusterRef": {"name": "db"}}, "status": status,
            });
            Arc::new(serde_json::from_value(backup).unwrap())
        });
        let backups: Vec<_> = backup.into_iter().collect();
        let attempt = next_attempt(&cluster, &Membership::of(&cluster), &backups)?;
        Some((attempt.name, attempt.due.map(|due| due.to_string())))
    }

    const FIRST: &str = "db-recovered-2c1f1c4e";

    #[test]
    fn recovered_cluster_that_archives_gets_a_backup() {
        let archives = json!({"backup": {"objectStore": store()}});
        let recovery = |done: bool| json!({"recovery": {"objectStore": store(), "done": done}});
        assert_eq!(next(&archives, recovery(true), None), Some((FIRST.to_owned(), None)));
        assert_eq!(next(&archives, recovery(false), None), None, "it recovers");
        assert_eq!(next(&archives, json!({}), None), None, "it was not recovered");
        assert_eq!(next(&json!({}), recovery(true), None), None, "it does not archive");
        let mut paused = archives.clone();
        paused["paused"] = json!(true);
        assert_eq!(next(&paused, recovery(true), None), None);
        let mut created = recovery(true);
        created["recovery"]["firstBackup"] = json!(FIRST);
        assert_eq!(next(&archives, created, None), None, "a person has deleted it");
        let mut backed_up = recovery(true);
        backed_up["lastBackup"] =
            json!({"name": "own", "key": "20261125T100000Z-00000002", "stoppedAt": "2026-11-25T10:00:00Z"});
        assert_eq!(next(&archives, backed_up, None), None);
    }

    #[test]
    fn upgraded_cluster_gets_a_backup_of_its_own() {
        let upgrade = json!({"from": "17.6", "to": "18.6", "member": "db-1", "done": true});
        let archives = json!({"backup": {"objectStore": store()}});
        let recovered = json!({"objectStore": store(), "done": true, "firstBackup": FIRST});
        let status = json!({"recovery": recovered, "majorUpgrade": upgrade});
        let name = "db-upgraded-18-2c1f1c4e";
        assert_eq!(next(&archives, status.clone(), None), Some((name.to_owned(), None)));
        assert_eq!(number(&with(&archives, status), name), Some(1));
    }

    #[test]
    fn failed_first_backup_is_repeated_later_each_time() {
        let archives = json!({"backup": {"objectStore": store()}});
        let after = |name: &str, phase: &str| {
            let status = json!({"recovery": {"objectStore": store(), "done": true, "firstBackup": name}});
            let ended = json!({"phase": phase, "stoppedAt": "2026-11-25T10:00:00Z"});
            next(&archives, status, Some((name, ended)))
        };
        let attempt = |number: u32, due: &str| Some((format!("{FIRST}-{number}"), Some(due.to_owned())));
        assert_eq!(after(FIRST, "Failed"), attempt(2, "2026-11-25T10:01:00Z"));
        assert_eq!(after(&format!("{FIRST}-2"), "Failed"), attempt(3, "2026-11-25T10:02:00Z"));
        assert_eq!(after(&format!("{FIRST}-9"), "Failed"), attempt(10, "2026-11-25T14:16:00Z"));
        assert_eq!(after(&format!("{FIRST}-99"), "Failed"), attempt(100, "2026-11-25T16:00:00Z"));
        assert_eq!(after(FIRST, "Running"), None);
        assert_eq!(after("db-recovered-00000000", "Failed"), None, "that of another cluster");
    }

    #[test]
    fn name_has_digits_of_the_uid() {
        let cluster = with(&json!({}), json!({}));
        let name = |number| name(&cluster, RECOVERED, number);
        assert_eq!((name(1), name(2)), (FIRST.to_owned(), format!("{FIRST}-2")));
        let number = |suffix: &str| number(&cluster, &format!("{FIRST}{suffix}"));
        assert_eq!([number(""), number("-2"), number("-12")], [Some(1), Some(2), Some(12)]);
        assert_eq!([number("-1"), number("-02"), number("-x"), number("2")], [None; 4]);
        assert_eq!(spec(&cluster).cluster_ref.name, "db");
    }
}
