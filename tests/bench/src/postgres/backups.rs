//! WAL and base backups in an object store: how fast they are, and how much memory they need.

use std::{
    ffi::OsStr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use cluster::usage::peak;
use kube::{Api, api::PostParams};
use postgres::{PostgresBackup, PostgresBackupPhase};
use postgres_model::wal_file::{SegmentSize, WalFileName};
use postgres_processes::{Database, ObjectStore, Written};
use serde_json::json;

use super::{application::Application, bare, environment::TestEnv, processes, throughput::server};
use crate::figures;

/// Base backups of each kind.
const ROUNDS: u32 = 3;

#[derive(Args)]
pub(crate) struct Backups {
    /// Scale of pgbench for the database that is archived and backed up: one is about 15 MiB
    #[arg(long = "postgres-backup-scale", value_name = "SCALE", default_value_t = 70)]
    database_scale: u32,
}

impl Backups {
    /// Prints how fast a member archives WAL that waits, and how fast base backups are beside
    /// `pg_basebackup` to a local disk.
    pub(crate) async fn measure(&self, env: &TestEnv) -> Result<()> {
        if self.database_scale == 0 {
            return Ok(());
        }
        let mut store = ObjectStore::start().await?;
        let kubelet = env.kubelet().await?;
        store.create_secret(&kubelet, None).await?;
        let mut database = env.database_on(kubelet, json!({"size": 1, "backup": store.backup()})).await?;
        self.archive(&mut database, &mut store).await?;
        back_up(&mut database).await?;
        let instance = processes::instance_pid(database.primary()?.folder())?;
        figures::print("  instance manager, memory, peak", peak(instance)?, "MiB");
        env.end(database).await
    }

    /// Fills the database while the store is stopped, and prints how fast the WAL is archived later.
    async fn archive(&self, database: &mut Database, store: &mut ObjectStore) -> Result<()> {
        let application = Application::of(&database.kubelet).await?;
        let before = segments(store)?.len();
        store.stop()?;
        server(database, &application)?.initialize(self.database_scale).await?;
        let primary = database.primary()?;
        let last = primary.query("SELECT pg_walfile_name(pg_current_wal_lsn())")?;
        let last: WalFileName = last.trim().parse()?;
        primary.sql("SELECT pg_switch_wal()")?;
        store.resume().await?;
        let check = async |_: &[_]| {
            let found = segments(store)?;
            Ok(if found.iter().any(|(segment, _)| *segment == last) { Ok(found) } else { Err(found.len()) })
        };
        let found = database.kubelet.until("the WAL to be archived", check).await?;
        let mut times: Vec<_> = found.into_iter().map(|(_, time)| time).collect();
        times.sort();
        let (first, last) = times.get(before).zip(times.last()).context("no WAL was archived")?;
        // The first one tells when the archiver noticed that the store is back.
        let archived = u32::try_from(times.len() - before - 1)?;
        let bytes = f64::from(archived) * f64::from(u32::try_from(SegmentSize::DEFAULT.bytes())?);
        let label = format!("WAL archived, {archived} segments");
        figures::print(&label, megabytes(bytes, last.saturating_sub(*first)), "MB/s");
        Ok(())
    }
}

/// Prints the rates of base backups and of `pg_basebackup` to a local disk, alternately.
async fn back_up(database: &mut Database) -> Result<()> {
    let primary = database.primary()?;
    primary.sql("CHECKPOINT")?;
    let bytes = primary.query("SELECT sum(pg_database_size(oid)) FROM pg_database")?;
    let bytes: f64 = bytes.trim().parse()?;
    let (mut stored, mut copied) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // The one that is first changes, so that a drift of the machine cancels out.
        if round % 2 == 0 {
            stored.push(store(database, round).await?);
        }
        copied.push(copy(database)?);
        if round % 2 == 1 {
            stored.push(store(database, round).await?);
        }
    }
    figures::print("size of the database", bytes / 1e6, "MB");
    let (stored, copied) = (megabytes(bytes, median(stored)), megabytes(bytes, median(copied)));
    figures::print("base backup into the object store, median", stored, "MB/s");
    figures::print("pg_basebackup to a local disk, median", copied, "MB/s");
    figures::print("  relative to pg_basebackup", stored / copied * 100.0, "%");
    Ok(())
}

/// Makes a base backup, and returns how long it took.
async fn store(database: &mut Database, round: u32) -> Result<Duration> {
    let name = format!("round-{round}");
    let backup = json!({
        "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup", "metadata": {"name": name},
        "spec": {"clusterRef": {"name": "db"}, "target": "Primary", "immediateCheckpoint": true},
    });
    let api: Api<PostgresBackup> = database.kubelet.api();
    let began = Instant::now();
    api.create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
    let check = async |_: &[_]| {
        let status = api.get(&name).await?.status.unwrap_or_default();
        Ok(if status.phase.is_final() { Ok(status) } else { Err(status) })
    };
    let status = database.kubelet.until(&format!("the backup {name}"), check).await?;
    let took = began.elapsed();
    ensure!(status.phase == PostgresBackupPhase::Completed, "the backup {name} failed: {}", status.error);
    Ok(took)
}

/// Copies the database to the disk, and returns how long it took.
fn copy(database: &mut Database) -> Result<Duration> {
    let folder = bare::folder_for_user()?;
    let began = Instant::now();
    bare::copy_data(database.primary()?, &folder.path().join("data"))?;
    Ok(began.elapsed())
}

/// Returns the segments in the store, and when each was written, since the epoch.
fn segments(store: &ObjectStore) -> Result<Vec<(WalFileName, Duration)>> {
    let objects = store.objects("")?;
    let segments = objects.into_iter().filter_map(|(path, written)| Some((segment(&path)?, time(written))));
    Ok(segments.collect())
}

/// Returns the segment that an object contains, if any.
fn segment(path: &Path) -> Option<WalFileName> {
    if path.extension() != Some(OsStr::new("zst")) {
        return None;
    }
    let name = path.file_stem()?.to_str()?.parse().ok();
    name.filter(|name| matches!(name, WalFileName::Segment(_)))
}

fn time((_, _, seconds, nanoseconds): Written) -> Duration {
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
    Duration::new(u64::try_from(seconds).unwrap_or_default(), nanoseconds)
}

/// Returns megabytes a second.
fn megabytes(bytes: f64, time: Duration) -> f64 {
    bytes / 1e6 / time.as_secs_f64()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    Duration::from_secs_f64(figures::percentile(&times, 50) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_told_from_other_objects() {
        let name = |path: &str| segment(Path::new(path)).map(|segment| segment.to_string());
        let found = name("/backups/test/db/wal/00000001/000000010000000000000003.zst");
        assert_eq!(found.as_deref(), Some("000000010000000000000003"));
        for other in [
            "/backups/test/db/wal/00000001/000000010000000000000003.00000028.backup.zst",
            "/backups/test/db/wal/00000001/000000010000000000000003.partial.zst",
            "/backups/test/db/base/1/data.zst",
            "/backups/test/db/wal/00000001/000000010000000000000003",
        ] {
            assert_eq!(name(other), None);
        }
    }

    #[test]
    fn rates_are_in_megabytes() {
        assert!((megabytes(5e6, Duration::from_millis(500)) - 10.0).abs() < f64::EPSILON);
    }
}
