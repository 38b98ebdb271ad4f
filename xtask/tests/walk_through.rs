//! Steps of the README: install, apply, run, stop, uninstall.
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
    Cluster, Progress, Release, binaries::Locator, program::build_manager, state::is_alive, wait::eventually,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

fn xtask(cluster: &Cluster, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).env("KUBECONFIG", cluster.kubeconfig());
    command
}

/// Returns the output of a command that must succeed.
fn succeed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the command that runs a manager. Builds the manager first, so that timeouts exclude the
/// build.
fn run(cluster: &Cluster, args: &[&str]) -> Command {
    build_manager(false).unwrap();
    xtask(cluster, &[&["run", "--"], args].concat())
}

#[tokio::test]
async fn install_run_uninstall_leaves_no_objects() {
    let cluster = cluster::isolated().await.unwrap();
    let installed = succeed(&xtask(&cluster, &["install"]).output().unwrap());
    assert!(installed.contains("installed podsets.app.example.com"), "{installed}");
    let policies = ["get", "validatingadmissionpolicies,validatingadmissionpolicybindings", "--output=name"];
    let names = cluster.kubectl(&policies).await.unwrap();
    assert_eq!(names.matches("/ensemble-tenant-system-namespaces").count(), 2, "{names}");

    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
    cluster.kubectl(&["apply", "-f", samples.to_str().unwrap()]).await.unwrap();
    let mut running = run(&cluster, &[]).stderr(Stdio::null()).spawn().unwrap();
    eventually("the sample to be ready", Duration::from_mins(2), async || {
        let wait = ["wait", "--for=condition=Ready", "podset/podset-sample", "--timeout=1s"];
        cluster.kubectl(&wait).await.map(|_| true)
    })
    .await
    .unwrap();

    // Its webhooks are registered while it runs.
    let configuration = ["get", "validatingwebhookconfigurations", "--output=name"];
    let names = cluster.kubectl(&configuration).await.unwrap();
    assert!(names.contains("/ensemble-tenant"), "{names}");

    // `kill -INT` signals `cargo xtask run` only, which forwards the signal to the manager.
    let manager = child_of(running.id());
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert!(running.wait().unwrap().success(), "an interrupt is not a failure");
    assert!(!is_alive(manager.as_raw_nonzero().get().try_into().unwrap()), "the manager is stopped too");
    assert_eq!(cluster.kubectl(&configuration).await.unwrap(), "", "the webhooks are unregistered");

    let removed = succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    assert!(removed.contains("removed memcacheds.cache.example.com"), "{removed}");
    assert_eq!(cluster.kubectl(&["get", "crds", "--output=name"]).await.unwrap(), "");
    assert_eq!(cluster.kubectl(&policies).await.unwrap(), "");
    let again = succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    assert!(again.contains("podsets.app.example.com is not installed"), "{again}");
    cluster.stop().unwrap();
}

/// Returns the child process of `parent`.
fn child_of(parent: u32) -> Pid {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let child = children.split_whitespace().next().expect("the process runs the manager");
    Pid::from_raw(child.parse().unwrap()).unwrap()
}

#[tokio::test]
async fn uninstall_removes_webhooks_of_killed_manager_and_keeps_deployed_ones() {
    let cluster = cluster::isolated().await.unwrap();
    succeed(&xtask(&cluster, &["install"]).output().unwrap());
    let mut running = run(&cluster, &[]).stderr(Stdio::null()).spawn().unwrap();
    let url = ["get", "validatingwebhookconfiguration", "ensemble-tenant"];
    let url = [&url[..], &["--output=jsonpath={.webhooks[*].clientConfig.url}"]].concat();
    eventually("the webhooks to be registered", Duration::from_mins(2), async || {
        Ok(cluster.kubectl(&url).await?.starts_with("https://127.0.0.1:"))
    })
    .await
    .unwrap();
    let orphan = child_of(running.id());
    running.kill().unwrap();
    running.wait().unwrap();
    kill_process(orphan, Signal::KILL).unwrap();
    assert!(
        cluster.kubectl(&url).await.unwrap().starts_with("https://"),
        "the webhooks of a killed manager remain"
    );
    succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    let configurations = ["get", "validatingwebhookconfigurations", "--output=name"];
    assert_eq!(cluster.kubectl(&configurations).await.unwrap(), "");

    let deployed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/webhooks/tenant.yaml");
    cluster.kubectl(&["apply", "-f", deployed.to_str().unwrap()]).await.unwrap();
    let mut running = run(&cluster, &[]).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(
        line.contains("the webhooks of a manager that is deployed in the cluster are registered"),
        "{line}"
    );
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    running.wait().unwrap();
    succeed(&xtask(&cluster, &["uninstall"]).output().unwrap());
    assert!(cluster.kubectl(&configurations).await.unwrap().contains("/ensemble-tenant"));
    cluster.stop().unwrap();
}

#[tokio::test]
async fn two_managers_start_concurrently_if_default_ports_are_in_use() {
    let cluster = cluster::isolated().await.unwrap();
    succeed(&xtask(&cluster, &["install"]).output().unwrap());
    // Binding fails if a port is already in use, which has the same effect.
    let _listeners = [8081, 8443].map(|port| TcpListener::bind(("127.0.0.1", port)));
    let start = |instance: &str| {
        let args = ["--controllers=podset", &format!("--instance={instance}")];
        run(&cluster, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap()
    };
    let mut addresses = Vec::new();
    for mut running in [start("one"), start("two")] {
        let mut line = String::new();
        BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("serving webhooks on "), "{line}");
        let ports = line.split([' ', ',']).filter(|word| word.starts_with("127.0.0.1:"));
        addresses.extend(ports.map(|address| address.trim_end().to_owned()));
        let mut log = BufReader::new(running.stderr.take().unwrap()).lines();
        let starts = log.find(|line| line.as_ref().unwrap().contains("the controller starts"));
        assert!(starts.is_some(), "the manager ended early: {line}");
        // Ctrl+C in a terminal signals the whole group. The manager treats it and the forwarded
        // signal as one.
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
fn error_is_one_line_without_stack_trace() {
    let mut install = Command::new(env!("CARGO_BIN_EXE_xtask"));
    install.arg("install").env("KUBECONFIG", "/nonexistent/kubeconfig").env("RUST_BACKTRACE", "1");
    let output = install.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains("/nonexistent/kubeconfig"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[tokio::test]
async fn demo_time_excludes_build() {
    let built = Locator::from_env().unwrap().locate(&Progress::stderr()).unwrap();
    build_manager(false).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("ensemble");
    std::fs::create_dir(&folder).unwrap();
    // The process that builds the programs holds this lock. Others wait for it, and then use the
    // programs.
    let key = cluster::cache_key(Release::from_env().unwrap()).unwrap();
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
    let mut stderr = BufReader::new(demo.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(stderr.any(|line| line.contains("another command is building")), "the demo does not wait");
    // A build that takes as long as the start of a cluster.
    cluster::isolated().await.unwrap().stop().unwrap();
    std::fs::create_dir(folder.join(&key)).unwrap();
    symlink(built.dir(), folder.join(&key).join("bin")).unwrap();
    drop(lock);
    let released = Instant::now();
    let rest = std::thread::spawn(move || stderr.collect::<Vec<_>>());
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let ready = lines.find_map(|line| line.strip_prefix("all samples ready ").map(ToOwned::to_owned));
    let since_released = released.elapsed().as_secs_f64();
    let Some(ready) = ready else { panic!("{:?}", rest.join().unwrap()) };
    let seconds: f64 = ready.split(' ').next().unwrap().parse().unwrap();
    assert!(seconds < since_released, "printed {seconds} s, but it took {since_released} s after the build");
    assert!(demo.wait().unwrap().success(), "{:?}", rest.join().unwrap());
}

#[test]
fn unknown_version_is_refused_with_known_ones() {
    let mut up = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = up.args(["cluster", "up", "--kubernetes=1.29"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("use one of 1.33, 1.34"), "{stderr}");
}
