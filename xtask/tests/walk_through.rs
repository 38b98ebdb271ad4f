//! The first walk-through of the README: install, apply, run, stop, uninstall.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::{fs::symlink, process::CommandExt},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use cluster::{
    Cluster, Progress, Versions, binaries::Locator, program::build_manager, state::is_alive, wait::eventually,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

fn xtask(cluster: &Cluster, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).env("KUBECONFIG", cluster.kubeconfig());
    command
}

fn succeed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the command that runs a manager. Builds it first, so that no wait is for the compiler.
fn run(cluster: &Cluster, args: &[&str]) -> Command {
    build_manager(false).unwrap();
    xtask(cluster, &[&["run", "--"], args].concat())
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
    let mut running = run(&cluster, &[]).stderr(Stdio::null()).spawn().unwrap();
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

    // Of `kill -INT` the manager does not learn by itself.
    let manager = child_of(running.id());
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert!(running.wait().unwrap().success(), "a stop that was asked for is no failure");
    assert!(!is_alive(manager.as_raw_nonzero().get().try_into().unwrap()), "the manager is stopped with it");
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
    let mut running = run(&cluster, &[]).stderr(Stdio::null()).spawn().unwrap();
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
    let mut running = run(&cluster, &[]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("asks a manager that is deployed in the cluster"), "{said}");
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    running.wait().unwrap();
    succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    assert!(cluster.kubectl(&configurations).await.unwrap().contains("/ensemble-tenant"));
    cluster.stop().unwrap();
}

#[tokio::test]
async fn two_managers_start_at_once_beside_others_that_have_the_usual_ports() {
    let cluster = cluster::isolated().await.unwrap();
    succeed(&xtask(&cluster, &["install"]).output().unwrap());
    // A port that somebody else has already is taken as well.
    let _taken = [8081, 8443].map(|port| TcpListener::bind(("127.0.0.1", port)));
    let start = |instance: &str| {
        let args = ["--controllers=podset", &format!("--instance={instance}")];
        run(&cluster, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap()
    };
    let mut addresses = Vec::new();
    for mut running in [start("one"), start("two")] {
        let mut said = String::new();
        BufReader::new(running.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert!(said.starts_with("webhooks are served on "), "{said}");
        let ports = said.split([' ', ',']).filter(|word| word.starts_with("127.0.0.1:"));
        addresses.extend(ports.map(|address| address.trim_end().to_owned()));
        let mut log = BufReader::new(running.stderr.take().unwrap()).lines();
        let starts = log.find(|line| line.as_ref().unwrap().contains("the controller starts"));
        assert!(starts.is_some(), "it ended early: {said}");
        // Ctrl+C in a terminal reaches the whole group. The manager takes it and what is passed on for one.
        let group = Pid::from_child(&running);
        let reader = std::thread::spawn(move || log.map(Result::unwrap).collect::<Vec<_>>());
        kill_process_group(group, Signal::INT).unwrap();
        assert!(running.wait().unwrap().success(), "{:?}", reader.join().unwrap());
    }
    addresses.sort();
    let count = addresses.len();
    addresses.dedup();
    assert_eq!((count, addresses.len()), (4, 4), "{addresses:?}");
    cluster.stop().unwrap();
}

#[test]
fn an_error_of_the_user_is_told_without_a_stack_trace() {
    let mut install = Command::new(env!("CARGO_BIN_EXE_xtask"));
    install.arg("install").env("KUBECONFIG", "/nonexistent/kubeconfig").env("RUST_BACKTRACE", "1");
    let output = install.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: ") && said.contains("/nonexistent/kubeconfig"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[tokio::test]
async fn the_demo_tells_the_time_since_the_start_of_the_cluster_and_not_of_the_build() {
    let built = Locator::from_env().unwrap().locate(&Progress::stderr()).unwrap();
    build_manager(false).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("ensemble");
    std::fs::create_dir(&folder).unwrap();
    // Whoever builds the programs has this lock; others wait for it, and find the programs then.
    let key = Versions::pinned().unwrap().key();
    let lock = File::create(folder.join(format!("{key}.lock"))).unwrap();
    lock.lock().unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["demo", "--exit", "--nodes=1"])
        .env("XDG_CACHE_HOME", cache.path())
        .env_remove("KUBEBUILDER_ASSETS")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(demo.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(told.any(|line| line.contains("another command is building")), "it waits for nobody");
    // A build that takes as long as the start of a cluster.
    cluster::isolated().await.unwrap().stop().unwrap();
    std::fs::create_dir(folder.join(&key)).unwrap();
    symlink(built.dir(), folder.join(&key).join("bin")).unwrap();
    drop(lock);
    let released = Instant::now();
    let rest = std::thread::spawn(move || told.collect::<Vec<_>>());
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let ready = lines.find_map(|line| line.strip_prefix("all samples ready ").map(ToOwned::to_owned));
    let since_released = released.elapsed().as_secs_f64();
    let Some(ready) = ready else { panic!("{:?}", rest.join().unwrap()) };
    let seconds: f64 = ready.split(' ').next().unwrap().parse().unwrap();
    assert!(seconds < since_released, "{seconds} s are told, and it took {since_released} s after the build");
    assert!(demo.wait().unwrap().success(), "{:?}", rest.join().unwrap());
}
