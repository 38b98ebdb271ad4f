//! The first walk-through of the README: install, apply, run, stop, uninstall.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    io::{BufRead, BufReader},
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
    let policies = ["get", "validatingadmissionpolicies,validatingadmissionpolicybindings", "--output=name"];
    let told = cluster.kubectl(&policies).await.unwrap();
    assert_eq!(told.matches("/ensemble-tenant-system-namespaces").count(), 2, "{told}");

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

    // While it runs, the API server asks it.
    let configuration = ["get", "validatingwebhookconfigurations", "--output=name"];
    let told = cluster.kubectl(&configuration).await.unwrap();
    assert!(told.contains("/ensemble-tenant"), "{told}");

    // Ctrl+C in a terminal reaches the whole group; the manager is what has to end.
    let manager = child_of(running.id());
    kill_process(manager, Signal::INT).unwrap();
    assert!(running.wait().unwrap().success(), "a stop that was asked for is no failure");
    assert_eq!(cluster.kubectl(&configuration).await.unwrap(), "", "nobody is asked any more");

    let removed = succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    assert!(removed.contains("removed memcacheds.cache.example.com"), "{removed}");
    assert_eq!(cluster.kubectl(&["get", "crds", "--output=name"]).await.unwrap(), "");
    assert_eq!(cluster.kubectl(&policies).await.unwrap(), "");
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

#[tokio::test]
async fn what_a_killed_manager_left_is_removed_and_what_is_deployed_is_not() {
    let cluster = cluster::isolated().await.unwrap();
    succeed(&xtask(&cluster, &["install"]).output().unwrap());
    let manager = ["run", "--", "--health-probe-bind-address=0"];
    let mut running = xtask(&cluster, &manager).stderr(Stdio::null()).spawn().unwrap();
    let url = ["get", "validatingwebhookconfiguration", "ensemble-tenant"];
    let url = [&url[..], &["--output=jsonpath={.webhooks[*].clientConfig.url}"]].concat();
    eventually("the API server to be told", Duration::from_mins(2), async || {
        Ok(cluster.kubectl(&url).await?.starts_with("https://127.0.0.1:"))
    })
    .await
    .unwrap();
    let orphan = child_of(running.id());
    running.kill().unwrap();
    running.wait().unwrap();
    kill_process(orphan, Signal::KILL).unwrap();
    assert!(cluster.kubectl(&url).await.unwrap().starts_with("https://"), "nobody was there to take it back");
    succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    let configurations = ["get", "validatingwebhookconfigurations", "--output=name"];
    assert_eq!(cluster.kubectl(&configurations).await.unwrap(), "");

    let deployed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/webhooks/tenant.yaml");
    cluster.kubectl(&["apply", "-f", deployed.to_str().unwrap()]).await.unwrap();
    let mut running = xtask(&cluster, &manager).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("asks a manager that is deployed in the cluster"), "{said}");
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    running.wait().unwrap();
    succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    assert!(cluster.kubectl(&configurations).await.unwrap().contains("/ensemble-tenant"));
    cluster.stop().unwrap();
}
