//! The first walk-through of the README: install, apply, run, stop, uninstall.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use cluster::{Cluster, wait::eventually};
use rustix::process::{Pid, Signal, kill_process};

fn xtask(cluster: &Cluster, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).env("KUBECONFIG", cluster.kubeconfig());
    command
}

fn succeed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn the_manager_runs_on_a_workstation_and_leaves_nothing() {
    let cluster = cluster::isolated().await.unwrap();
    let installed = succeed(&xtask(&cluster, &["install"]).output().unwrap());
    assert!(installed.contains("installed podsets.app.example.com"), "{installed}");

    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
    cluster.kubectl(&["apply", "-f", samples.to_str().unwrap()]).await.unwrap();
    let manager = ["run", "--", "--health-probe-bind-address=0"];
    let mut running = xtask(&cluster, &manager).stderr(Stdio::null()).spawn().unwrap();
    eventually("the sample to be ready", Duration::from_mins(2), async || {
        let wait = ["wait", "--for=condition=Ready", "podset/podset-sample", "--timeout=1s"];
        cluster.kubectl(&wait).await.map(|_| true)
    })
    .await
    .unwrap();

    // Ctrl+C in a terminal reaches the whole group; the manager is what has to end.
    let manager = child_of(running.id());
    kill_process(manager, Signal::INT).unwrap();
    assert!(running.wait().unwrap().success(), "a stop that was asked for is no failure");

    let removed = succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    assert!(removed.contains("removed memcacheds.cache.example.com"), "{removed}");
    assert_eq!(cluster.kubectl(&["get", "crds", "--output=name"]).await.unwrap(), "");
    let again = succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    assert!(again.contains("podsets.app.example.com is not installed"), "{again}");
    cluster.stop().unwrap();
}

/// The process that `parent` started.
fn child_of(parent: u32) -> Pid {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let child = children.split_whitespace().next().expect("it runs the manager");
    Pid::from_raw(child.parse().unwrap()).unwrap()
}
