//! `backup`: makes a base backup.

use ::postgres::{
    BackupTarget, BackupType, ClusterRef, PostgresBackup, PostgresBackupPhase, PostgresBackupSpec,
    PostgresCluster,
};
use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, PostParams},
};

use super::{
    progress::{Progress, Watched, follow},
    target::{Target, check_not_paused},
};
use crate::{cluster::Cluster, flags::postgres::Backup, output::ExitStatus};

pub(super) async fn run(cluster: &Cluster, flags: &Backup) -> Result<ExitStatus> {
    let target = Target::new(cluster, &flags.cluster);
    let current = target.get().await?;
    check(&current).with_context(|| format!("cannot back up {}", target.describe()))?;
    let backup = build(flags, cluster.now());
    let api = Api::<PostgresBackup>::namespaced(cluster.client.clone(), cluster.namespace());
    let what = format!("PostgresBackup {}/{}", cluster.namespace(), backup.name_any());
    api.create(&PostParams::default(), &backup).await.with_context(|| format!("cannot create {what}"))?;
    let name = backup.name_any();
    follow(Watched { api, name: &name, what }, flags.waiting, progress).await
}

fn check(cluster: &PostgresCluster) -> Result<()> {
    check_not_paused(cluster)?;
    ensure!(cluster.spec.backup.is_some(), "spec.backup is not set, so there is no object store for backups");
    Ok(())
}

fn build(flags: &Backup, now: Timestamp) -> PostgresBackup {
    let default = || format!("{}-{}", flags.cluster, now.strftime("%Y%m%d%H%M%S"));
    let target = if flags.from_primary { BackupTarget::Primary } else { BackupTarget::PreferStandby };
    PostgresBackup {
        metadata: ObjectMeta {
            name: Some(flags.name.clone().unwrap_or_else(default)),
            ..ObjectMeta::default()
        },
        spec: PostgresBackupSpec {
            cluster_ref: ClusterRef { name: flags.cluster.clone() },
            backup_type: if flags.incremental { BackupType::Incremental } else { BackupType::Full },
            target,
            immediate_checkpoint: flags.immediate_checkpoint,
        },
        status: None,
    }
}

fn progress(backup: &PostgresBackup) -> Progress {
    let status = backup.status.clone().unwrap_or_default();
    match status.phase {
        PostgresBackupPhase::Completed => {
            let bytes = status.bytes.unwrap_or_default();
            let based = if status.based_on.is_empty() {
                String::new()
            } else {
                format!(", based on {}", status.based_on)
            };
            let reason = if status.full_reason.is_empty() {
                String::new()
            } else {
                format!("; it is a full one: {}", status.full_reason)
            };
            Progress::Done(format!("complete, {bytes} bytes, made by {}{based}{reason}", status.member))
        }
        PostgresBackupPhase::Failed => Progress::Failed(status.error),
        phase @ (PostgresBackupPhase::Pending | PostgresBackupPhase::Running) => {
            let error = if status.error.is_empty() { String::new() } else { format!(": {}", status.error) };
            Progress::Waiting(format!("the phase is {phase:?}{error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use ::postgres::PostgresBackupStatus;

    use super::*;
    use crate::{
        flags::{Command, Flags, postgres::PostgresCommand},
        postgres::testing::available,
    };

    fn parse(args: &[&str]) -> Backup {
        let args = [&["ensemblectl", "postgres", "backup"], args].concat();
        match Flags::try_parse_from(args).unwrap().command {
            Command::Postgres { command: PostgresCommand::Backup(backup) } => backup,
            _ => panic!("another command"),
        }
    }

    #[test]
    fn backup_has_a_name_with_the_time_unless_one_is_given() {
        let now = "2026-11-25T09:30:00Z".parse().unwrap();
        assert_eq!(build(&parse(&["db"]), now).name_any(), "db-20261125093000");
        let named = build(&parse(&["db", "--name", "before", "--from-primary"]), now);
        assert_eq!((named.name_any().as_str(), named.spec.target), ("before", BackupTarget::Primary));
        assert_eq!(named.spec.cluster_ref.name, "db");
        let types =
            [&["db"][..], &["db", "--incremental"]].map(|args| build(&parse(args), now).spec.backup_type);
        assert_eq!(types, [BackupType::Full, BackupType::Incremental]);
    }

    #[test]
    fn result_says_on_which_backup_it_is_based_or_why_it_is_full() {
        let mut backup = build(&parse(&["db", "--incremental"]), "2026-11-25T09:30:00Z".parse().unwrap());
        let mut text = |based_on: &str, full_reason: &str| {
            backup.status = Some(PostgresBackupStatus {
                phase: PostgresBackupPhase::Completed,
                member: "db-2".to_owned(),
                based_on: based_on.to_owned(),
                full_reason: full_reason.to_owned(),
                ..PostgresBackupStatus::default()
            });
            match progress(&backup) {
                Progress::Done(text) => text,
                _ => panic!("not complete"),
            }
        };
        assert_eq!(text("", ""), "complete, 0 bytes, made by db-2");
        assert_eq!(text("one", ""), "complete, 0 bytes, made by db-2, based on one");
        assert_eq!(text("", "no WAL"), "complete, 0 bytes, made by db-2; it is a full one: no WAL");
    }

    #[test]
    fn backup_needs_an_object_store() {
        let error = check(&available(&["db-1"])).unwrap_err().to_string();
        assert!(error.starts_with("spec.backup is not set"), "{error}");
    }
}
