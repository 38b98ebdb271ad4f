//! Clusters in the background.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use cluster::state::{Owner, StateRoot};
use cluster::{Progress, attach, named, wait};
use rustix::process::{Pid, Signal, kill_process};

use crate::{PATIENCE, until_removed};

fn keeper(name: &str) -> Command {
    let mut keeper = Command::new(env!("CARGO_BIN_EXE_cluster-keeper"));
    keeper.arg(name);
    keeper
}

/// Returns a name that is unique among test runs on this machine.
fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", std::process::id())
}

async fn up(name: &str) -> cluster::Record {
    let name = name.to_owned();
    tokio::task::spawn_blocking(move || named::up(&name, keeper(&name), &Progress::silent()))
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn background_cluster_is_found_by_name_until_stopped() {
    let name = unique("background");
    let record = up(&name).await;
    let error = named::up(&name, keeper(&name), &Progress::silent()).unwrap_err().to_string();
    assert!(error.contains("runs already"), "{error}");

    let found = named::status().unwrap().into_iter().find(|status| status.name == name).unwrap();
    assert_eq!((found.owner, found.record.as_ref()), (Owner::Present, Some(&record)));
    for wanted in [name.as_str(), record.dir.to_str().unwrap(), record.kubeconfig.to_str().unwrap()] {
        let cluster = attach(wanted).unwrap();
        assert!(!cluster.is_owned());
        cluster.ready(PATIENCE).await.unwrap();
    }

    assert!(named::down(&name).unwrap());
    until_removed(&record.pids, &record.dir).await;
    assert!(!named::down(&name).unwrap(), "the cluster must not run");
    assert!(attach(&name).unwrap_err().to_string().contains("no cluster"));
}

#[tokio::test]
async fn killed_starter_leaves_no_processes_or_files() {
    let record = up(&unique("killed")).await;
    let owner = Pid::from_raw(i32::try_from(record.owner).unwrap()).unwrap();
    kill_process(owner, Signal::KILL).unwrap();
    until_removed(&record.pids, &record.dir).await;
}

#[tokio::test]
async fn interrupted_start_leaves_no_processes_or_files() {
    let name = unique("interrupted");
    let mut child =
        keeper(&name).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = output.find(|line| line.as_ref().unwrap().contains("API server ready"));
    assert!(ready.is_some());
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
    let dir = StateRoot::from_env().unwrap().dir(&name);
    wait::eventually("the directory to be gone", PATIENCE, async || Ok(!dir.exists())).await.unwrap();
}

#[test]
fn reports_error_of_failed_keeper() {
    let name = unique("fails");
    let mut keeper = keeper(&name);
    keeper.env("KUBEBUILDER_ASSETS", "/nonexistent");
    let error = named::up(&name, keeper, &Progress::silent()).unwrap_err().to_string();
    assert!(error.contains("did not start") && error.contains("KUBEBUILDER_ASSETS"), "{error}");
}

#[test]
fn rejects_invalid_name() {
    let error = named::down("../../etc").unwrap_err().to_string();
    assert!(error.contains("cannot name a cluster"), "{error}");
}
