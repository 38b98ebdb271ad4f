//! `restore`: creates a cluster from the archive of another one.

use ::postgres::{
    Bootstrap, FormerVolumes, PostgresBackup, PostgresBackupPhase, PostgresBackupStatus, PostgresCluster,
    Recovery, RecoverySource, RecoveryTarget, VersionSpec, condition_types::AVAILABLE,
};
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use operator_core::conditions::is_true;

use super::{
    progress::Progress,
    target::{Target, describe_condition, status_of},
};
use crate::{
    cluster::Cluster,
    flags::postgres::Restore,
    output::{ExitStatus, print_text},
};

pub(super) async fn run(cluster: &Cluster, flags: &Restore) -> Result<ExitStatus> {
    ensure!(flags.cluster != flags.from, "the new PostgresCluster must have another name than its source");
    let source = Target::new(cluster, &flags.from).get().await?;
    let api = Api::<PostgresBackup>::namespaced(cluster.client.clone(), cluster.namespace());
    let backups = api.list(&ListParams::default()).await.context("cannot list the PostgresBackups")?;
    let restored = build(flags, &source, &backups.items)?;
    if flags.dry_run {
        let yaml = serde_saphyr::to_string(&restored).context("cannot write the PostgresCluster as YAML")?;
        print_text(&yaml)?;
        return Ok(ExitStatus::Success);
    }
    let target = Target::new(cluster, &flags.cluster);
    let created = target.api().create(&PostParams::default(), &restored).await;
    created.with_context(|| format!("cannot create {}", target.describe()))?;
    target.follow(flags.waiting, progress).await
}

/// Returns the new cluster: the spec of the source, with a recovery.
fn build(flags: &Restore, source: &PostgresCluster, backups: &[PostgresBackup]) -> Result<PostgresCluster> {
    let mut spec = source.spec.clone();
    // The new cluster archives below a name of its own, and runs at once.
    if let Some(backup) = &mut spec.backup {
        backup.object_store.server_name = None;
    }
    spec.paused = false;
    let (backup_name, source) = match &flags.backup {
        Some(name) => {
            let status = complete(backups, name)?;
            spec.version = version_before(source, status).or(spec.version);
            (Some(name.clone()), None)
        }
        None => (None, Some(archive(source, backups)?)),
    };
    let lsn = flags.to_lsn.as_deref().map(|lsn| lsn.parse().map_err(anyhow::Error::msg)).transpose();
    let target = RecoveryTarget {
        time: flags.to_time.map(MicroTime),
        lsn: lsn.context("--to-lsn must be a position in the WAL, such as 0/3000060")?,
        immediate: flags.to_end_of_backup,
        ..RecoveryTarget::default()
    };
    spec.bootstrap = Bootstrap {
        initdb: spec.bootstrap.initdb,
        recovery: Some(Recovery { backup_name, source, target }),
        volumes: FormerVolumes::default(),
    };
    Ok(PostgresCluster::new(&flags.cluster, spec))
}

/// Returns the status of a backup that can be recovered.
fn complete<'a>(backups: &'a [PostgresBackup], name: &str) -> Result<&'a PostgresBackupStatus> {
    let Some(backup) = backups.iter().find(|backup| backup.name_any() == name) else {
        let names = backups.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(", ");
        bail!("there is no PostgresBackup {name}; those of the namespace are: {names}");
    };
    let phase = backup.status.as_ref().map(|status| status.phase).unwrap_or_default();
    let complete = backup.status.as_ref().filter(|status| status.phase == PostgresBackupPhase::Completed);
    complete.with_context(|| format!("the PostgresBackup {name} is {phase:?}, not Completed"))
}

/// Returns the version of a backup from before the last upgrade to another major version.
fn version_before(source: &PostgresCluster, backup: &PostgresBackupStatus) -> Option<VersionSpec> {
    let status = source.status.as_ref()?;
    let upgrade = status.major_upgrade.as_ref().filter(|upgrade| upgrade.done)?;
    let is_before = backup.system_id.is_some() && backup.system_id != status.system_id;
    let (major, _) = upgrade.from.split_once('.')?;
    major.parse().ok().filter(|_| is_before).map(VersionSpec::Int)
}

/// Returns where the archive of a cluster is, as its last complete backup says.
fn archive(source: &PostgresCluster, backups: &[PostgresBackup]) -> Result<RecoverySource> {
    let name = source.name_any();
    let complete = backups.iter().filter(|backup| backup.spec.cluster_ref.name == name);
    let complete = complete.filter_map(|backup| backup.status.as_ref()).filter(|status| {
        status.phase == PostgresBackupPhase::Completed && Some(&status.cluster_uid) == source.uid().as_ref()
    });
    let newest = complete.max_by_key(|status| status.stopped_at.as_ref().map(|time| time.0));
    let source = newest.and_then(|status| {
        Some(RecoverySource { object_store: status.object_store.clone()?, system_id: status.system_id })
    });
    source.with_context(|| {
        format!("PostgresCluster {name} has no complete backup; make one with `ensemblectl postgres backup {name}`")
    })
}

fn progress(cluster: &PostgresCluster) -> Progress {
    let status = status_of(cluster);
    if is_true(&status.conditions, AVAILABLE) {
        return Progress::Done(format!(
            "the database is recovered, and {} takes writes",
            status.primary.current
        ));
    }
    Progress::Waiting(describe_condition(&status, AVAILABLE))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::{
        flags::{Command, Flags, postgres::PostgresCommand},
        postgres::testing::available,
    };

    fn parse(args: &[&str]) -> Restore {
        let args = [&["ensemblectl", "postgres", "restore", "new", "--from", "db"], args].concat();
        match Flags::try_parse_from(args).unwrap().command {
            Command::Postgres { command: PostgresCommand::Restore(restore) } => restore,
            _ => panic!("another command"),
        }
    }

    fn source() -> PostgresCluster {
        let mut source = available(&["db-1"]);
        source.metadata.uid = Some("u-1".to_owned());
        source.spec.paused = true;
        source.spec.backup = Some(serde_json::from_value(json!({ "objectStore": store("db-own") })).unwrap());
        source
    }

    fn store(server: &str) -> serde_json::Value {
        let key = |key: &str| json!({ "name": "store", "key": key });
        let credentials = json!({ "accessKeyID": key("id"), "secretAccessKey": key("key") });
        json!({ "url": "s3://backups/eu", "serverName": server, "credentials": credentials })
    }

    fn backup(name: &str, uid: &str, stopped: &str, server: &str) -> PostgresBackup {
        serde_json::from_value(json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup", "metadata": { "name": name },
            "spec": { "clusterRef": { "name": "db" } },
            "status": { "phase": "Completed", "clusterUID": uid, "stoppedAt": stopped, "objectStore": store(server) },
        }))
        .unwrap()
    }

    #[test]
    fn new_cluster_reads_the_archive_of_the_last_complete_backup() {
        let backups = [
            backup("a", "u-1", "2026-11-25T01:00:00Z", "db-first"),
            backup("b", "u-1", "2026-11-25T02:00:00Z", "db-second"),
            // A former cluster of the same name.
            backup("c", "u-0", "2026-11-25T03:00:00Z", "db-former"),
        ];
        let flags = parse(&["--to-time", "2026-11-25T02:30:00Z"]);
        let restored = build(&flags, &source(), &backups).unwrap();
        assert_eq!(restored.name_any(), "new");
        assert!(!restored.spec.paused);
        let archive = restored.spec.backup.unwrap().object_store;
        assert_eq!((archive.url.as_str(), archive.server_name), ("s3://backups/eu", None));
        let recovery = restored.spec.bootstrap.recovery.unwrap();
        assert_eq!(recovery.source.unwrap().object_store.server_name.as_deref(), Some("db-second"));
        assert_eq!(recovery.target.time.unwrap().0.to_string(), "2026-11-25T02:30:00Z");
    }

    #[test]
    fn backup_from_before_an_upgrade_has_the_former_version() {
        let mut source = source();
        source.status = serde_json::from_value(json!({
            "systemID": "8", "majorUpgrade": {"from": "17.6", "to": "18.6", "member": "db-1", "done": true},
        }))
        .unwrap();
        let mut backups = ["a", "b"].map(|name| backup(name, "u-1", "2026-11-25T01:00:00Z", "db-first"));
        for (backup, system) in backups.iter_mut().zip(["7", "8"]) {
            backup.status.as_mut().unwrap().system_id = system.parse().ok();
        }
        let version =
            |name: &str| build(&parse(&["--backup", name]), &source, &backups).unwrap().spec.version;
        assert_eq!((version("a"), version("b")), (Some(VersionSpec::Int(17)), source.spec.version.clone()));
    }

    #[test]
    fn backup_must_be_complete() {
        let backups = [backup("a", "u-1", "2026-11-25T01:00:00Z", "db-first")];
        let restored = build(&parse(&["--backup", "a", "--to-end-of-backup"]), &source(), &backups).unwrap();
        let recovery = restored.spec.bootstrap.recovery.unwrap();
        assert_eq!((recovery.backup_name.as_deref(), recovery.source), (Some("a"), None));
        assert!(recovery.target.immediate);
        let error = build(&parse(&["--backup", "z"]), &source(), &backups).unwrap_err().to_string();
        assert_eq!(error, "there is no PostgresBackup z; those of the namespace are: a");
        let error = build(&parse(&[]), &source(), &[]).unwrap_err().to_string();
        assert!(error.contains("has no complete backup"), "{error}");
        let error = build(&parse(&["--to-lsn", "yesterday"]), &source(), &backups).unwrap_err().to_string();
        assert!(error.contains("0/3000060"), "{error}");
    }
}
