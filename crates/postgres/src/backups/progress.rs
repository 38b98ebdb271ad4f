//! The next step of a PostgresBackup, and what its member is asked for. Pure functions.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use operator_core::kind::uid;
use postgres_model::{
    archive::Lineage,
    report::{BackupPhase, BackupReport, InstanceReport, InstanceState, WalSenderState},
};

use super::status::{complete, describe, failed};
use crate::{
    api::{
        BackupStore, BackupTarget, BackupType, PostgresBackup, PostgresBackupPhase as Phase,
        PostgresBackupStatus, PostgresCluster,
    },
    membership::{Membership, Serial},
};

/// What a backup depends on.
pub(super) struct Inputs<'a> {
    pub(super) cluster: &'a PostgresCluster,
    pub(super) membership: &'a Membership,
    pub(super) reports: &'a BTreeMap<Serial, InstanceReport>,
    /// UIDs of the Pods of the members.
    pub(super) pods: &'a BTreeMap<Serial, String>,
    /// Name of another backup that has not ended.
    pub(super) other: Option<String>,
    pub(super) now: Timestamp,
}

/// How long a backup waits for a standby that streams. Then the primary makes it.
const STANDBY: SignedDuration = SignedDuration::from_secs(30);

/// What a member is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Make a backup for the PostgresBackup with this UID.
    Backup {
        /// UID of the PostgresBackup.
        uid: String,
        /// Whether to begin with a checkpoint at full speed.
        immediate_checkpoint: bool,
        /// Whether to copy only what has changed, if that is possible.
        incremental: bool,
    },
    /// Finish this WAL file, if it is the present one.
    SwitchWal(String),
}

impl Inputs<'_> {
    /// Returns the next status of a backup.
    pub(super) fn next(&self, backup: &PostgresBackup) -> PostgresBackupStatus {
        let known = backup.status.clone().unwrap_or_default();
        if known.phase.is_final() {
            return known;
        }
        complete(backup, self.proceed(backup, known), self.now)
    }

    /// Returns what a member is asked for, by the stored status.
    pub(super) fn request(&self, backup: &PostgresBackup) -> Option<(Serial, Request)> {
        let status = backup.status.as_ref().filter(|status| !status.phase.is_final())?;
        let (serial, report) = self.member(&status.member)?;
        if report.pod_uid != status.pod_uid {
            return None;
        }
        match report.backup.as_ref().filter(|reported| reported.uid == uid(backup)) {
            None if status.phase == Phase::Pending => {
                let immediate_checkpoint = backup.spec.immediate_checkpoint;
                let incremental = backup.spec.backup_type == BackupType::Incremental;
                Some((serial, Request::Backup { uid: uid(backup), immediate_checkpoint, incremental }))
            }
            Some(BackupReport { phase: BackupPhase::WaitingForWal, end_wal: Some(file), .. }) => {
                let primary = self.membership.failover.current.as_ref()?;
                Some((self.member(primary)?.0, Request::SwitchWal(file.clone())))
            }
            _ => None,
        }
    }

    fn proceed(&self, backup: &PostgresBackup, status: PostgresBackupStatus) -> PostgresBackupStatus {
        if status.member.is_empty() {
            return self.choose(backup, status);
        }
        let member = status.member.clone();
        if status.cluster_uid != uid(self.cluster) {
            let error = "the PostgresCluster was deleted, and another one has its name".to_owned();
            return failed(status, error);
        }
        let has_pod = self.pod(&member).is_some_and(|pod| *pod == status.pod_uid);
        let report = self.member(&member).map(|(_, report)| report).filter(|_| has_pod);
        let own = report.map(|report| report.backup.as_ref().filter(|reported| reported.uid == uid(backup)));
        match (own, status.phase) {
            (Some(Some(reported)), _) => describe(status, reported, self.membership),
            // The request has not arrived yet.
            (Some(None), Phase::Pending) => status,
            (Some(None), _) => failed(status, format!("the instance manager of {member} has started again")),
            (None, Phase::Pending) if !has_pod => {
                let reset = PostgresBackupStatus { member: String::new(), pod_uid: String::new(), ..status };
                self.choose(backup, reset)
            }
            (None, _) if !has_pod => failed(status, format!("the Pod {member} was deleted or replaced")),
            // The member may answer again.
            (None, _) => status,
        }
    }

    /// Chooses the member of a backup, or says what the backup waits for.
    fn choose(&self, backup: &PostgresBackup, status: PostgresBackupStatus) -> PostgresBackupStatus {
        match self.candidate(backup) {
            Ok((member, pod_uid)) => PostgresBackupStatus {
                member,
                pod_uid,
                cluster_uid: uid(self.cluster),
                system_id: self.membership.system_id,
                object_store: self.object_store(),
                error: String::new(),
                ..status
            },
            Err(error) => PostgresBackupStatus { error, ..status },
        }
    }

    /// Returns where the cluster archives, with its name there.
    fn object_store(&self) -> Option<BackupStore> {
        let mut store = self.cluster.spec.backup.as_ref()?.object_store.clone();
        let (name, uid) = (self.cluster.name_any(), uid(self.cluster));
        let lineage = Lineage::new(store.server_name.as_deref(), &name, &uid).ok()?;
        store.server_name = Some(lineage.to_string());
        Some(store)
    }

    /// Returns the member that makes a backup, and the UID of its Pod.
    fn candidate(&self, backup: &PostgresBackup) -> Result<(String, String), String> {
        if self.cluster.spec.backup.is_none() {
            return Err("waiting for spec.backup of the PostgresCluster".to_owned());
        }
        if self.cluster.spec.paused {
            return Err("waiting until spec.paused of the PostgresCluster is false".to_owned());
        }
        if let Some(other) = &self.other {
            return Err(format!("waiting for the end of the PostgresBackup {other}"));
        }
        let primary = self.membership.failover.current.as_ref();
        let (_, report) = primary
            .and_then(|primary| self.member(primary))
            .ok_or_else(|| "waiting for a primary".to_owned())?;
        match &report.archive {
            Some(archive) if archive.failure.is_none() && archive.is_claimed => {}
            Some(_) | None => return Err("waiting for the archive: see the condition Archiving".to_owned()),
        }
        let prefers_standby = backup.spec.target == BackupTarget::PreferStandby;
        let standby = self.standby(report).filter(|_| prefers_standby);
        let may_come = prefers_standby && self.membership.members.len() > 1 && is_new(backup, self.now);
        if standby.is_none() && may_come {
            return Err("waiting for a standby that streams".to_owned());
        }
        let chosen = standby.unwrap_or_else(|| report.member.clone());
        let pod = self.pod(&chosen).cloned();
        pod.map(|pod| (chosen, pod)).ok_or_else(|| "waiting for a Pod of a member".to_owned())
    }

    /// Returns the standby that streams and has the most WAL.
    fn standby(&self, primary: &InstanceReport) -> Option<String> {
        let streaming = primary.standbys.iter().filter(|standby| standby.state == WalSenderState::Streaming);
        let answers = |name: &str| {
            let report = self.member(name).map(|(_, report)| report);
            report.is_some_and(|report| report.state == InstanceState::Standby && !report.disk_full)
        };
        let usable = streaming.filter(|standby| answers(&standby.name));
        usable.max_by_key(|standby| standby.flushed).map(|standby| standby.name.clone())
    }

    fn member(&self, name: &str) -> Option<(Serial, &InstanceReport)> {
        self.reports
            .iter()
            .find(|(_, report)| report.member == name)
            .map(|(serial, report)| (*serial, report))
    }

    fn pod(&self, name: &str) -> Option<&String> {
        let member = self.membership.members.iter().find(|it| self.membership.name_of(it.serial) == name)?;
        self.pods.get(&member.serial)
    }
}

/// Returns whether a backup was created a moment ago, so that it waits for a standby.
fn is_new(backup: &PostgresBackup, now: Timestamp) -> bool {
    let created = backup.metadata.creation_timestamp.as_ref().map_or(now, |created| created.0);
    now.duration_since(created) < STANDBY
}

/// Returns whether a backup can go on without a change of an object: a member makes it, or it waits for a
/// standby.
pub(super) fn needs_look(backup: &PostgresBackup, now: Timestamp) -> bool {
    let is_final = backup.status.as_ref().is_some_and(|status| status.phase.is_final());
    active(backup).is_some() || (!is_final && is_new(backup, now))
}

/// Returns the name of a backup that has a member and has not ended.
pub(super) fn active(backup: &PostgresBackup) -> Option<String> {
    let status = backup.status.as_ref()?;
    (!status.phase.is_final() && !status.member.is_empty()).then(|| backup.name_any())
}
