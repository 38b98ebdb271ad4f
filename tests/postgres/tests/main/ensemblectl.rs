//! `ensemblectl postgres`, as an operator uses it.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    process::{Output, Stdio},
    sync::LazyLock,
    task::Poll,
};

use anyhow::{Context, Result};
use cluster::program::build_ensemblectl;
use futures::poll;
use postgres_processes::{Database, Member, ObjectStore};
use serde_json::Value;
use tokio::process::Command;

use crate::archive::database;

/// Result of ensemblectl.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Returns the path of ensemblectl. The first caller builds it.
fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| build_ensemblectl(!cfg!(debug_assertions)).unwrap());
    &PROGRAM
}

/// Runs `ensemblectl postgres`, while the kubelet of the test runs the members.
async fn ctl(database: &mut Database, args: &[&str]) -> Result<Ran> {
    let mut command = Command::new(program());
    command.args(["postgres", "--namespace", database.kubelet.namespace.name()]).args(args);
    command.env("KUBECONFIG", database.kubelet.harness.cluster.kubeconfig()).kill_on_drop(true);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut ended = pin!(child.wait_with_output());
    let check = async |_: &[Member]| {
        Ok(match poll!(&mut ended) {
            Poll::Ready(output) => Ok(output?),
            Poll::Pending => Err("it still runs"),
        })
    };
    let Output { status, stdout, stderr } =
        database.kubelet.until(&format!("ensemblectl postgres {}", args.join(" ")), check).await?;
    Ok(Ran { code: status.code(), out: String::from_utf8(stdout)?, err: String::from_utf8(stderr)? })
}

/// Runs a command that must succeed, and returns what it prints.
async fn succeed(database: &mut Database, args: &[&str]) -> Result<String> {
    let ran = ctl(database, args).await?;
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}\n{}", database.kubelet.logs());
    println!("ensemblectl postgres {}: {}", args.join(" "), ran.out.trim());
    Ok(ran.out)
}

/// Runs a command that must be refused before it changes anything, and returns the message.
async fn refused(database: &mut Database, args: &[&str]) -> Result<String> {
    let ran = ctl(database, args).await?;
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
    Ok(ran.err)
}

#[tokio::test]
async fn operator_switches_over_fences_restarts_backs_up_and_restores() -> Result<()> {
    // Members lose the API server while cargo blocks the thread that runs their kubelet.
    tokio::task::spawn_blocking(program).await?;
    let store = ObjectStore::start().await?;
    let mut database = database(&store, 2, store.backup()).await?;
    let db = &mut database;

    let switched = succeed(db, &["switchover", "db"]).await?;
    assert!(switched.contains("db-2 has taken over from db-1"), "{switched}");
    let same = refused(db, &["switchover", "db", "--to", "db-2"]).await?;
    assert!(same.contains("db-2 is the primary already"), "{same}");
    let promoted = refused(db, &["promote", "db", "db-1", "--accept-data-loss"]).await?;
    assert!(promoted.contains("takes writes; use `ensemblectl postgres switchover db`"), "{promoted}");

    db.until_complete().await?;
    let fenced = succeed(db, &["fence", "db", "db-1"]).await?;
    assert!(fenced.contains("db-1 fenced, and PostgreSQL does not answer there"), "{fenced}");
    let fenced = refused(db, &["switchover", "db"]).await?;
    assert!(fenced.contains("no standby is ready to take over from db-2"), "{fenced}");
    succeed(db, &["unfence", "db"]).await?;

    db.until_complete().await?;
    let restarted = succeed(db, &["restart", "db"]).await?;
    assert!(restarted.contains("all members have new Pods"), "{restarted}");
    let backup = ["backup", "db", "--name", "first", "--immediate-checkpoint"];
    let complete = succeed(db, &backup).await?;
    assert!(complete.contains("complete"), "{complete}");
    let exists = refused(db, &backup).await?;
    assert!(exists.contains("cannot create PostgresBackup") && exists.contains("already exists"), "{exists}");
    let restore = ["restore", "copy", "--from", "db", "--to-end-of-backup"];
    let yaml = succeed(db, &[&restore[..], &["--dry-run"]].concat()).await?;
    assert!(yaml.contains("kind: PostgresCluster") && yaml.contains("immediate: true"), "{yaml}");
    let restored = succeed(db, &restore).await?;
    assert!(restored.contains("the database is recovered, and copy-1 takes writes"), "{restored}");

    let status = succeed(db, &["status", "db", "--output", "json"]).await?;
    let status: Value = serde_json::from_str(&status).context("the status is no JSON")?;
    assert_eq!((&status["size"], &status["lastBackup"]), (&2.into(), &"first".into()), "{status:#}");
    let missing = refused(db, &["status", "no-such"]).await?;
    assert!(missing.contains("no-such not found"), "{missing}");
    Ok(())
}
