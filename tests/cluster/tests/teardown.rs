//! Nothing of a cluster with real nodes remains, whenever its launcher is killed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use cluster::{Options, Progress, named, state::StateRoot};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const PATIENCE: Duration = Duration::from_mins(1);
/// How the lines begin that report the steps of a start.
const STEPS: [&str; 4] = ["starting ", "API server ready", "nodes ready", "usable after"];

/// What a cluster leaves on the host, if anything.
#[derive(Debug, PartialEq)]
struct Traces {
    /// Command lines of processes that name the directory of the cluster.
    processes: Vec<String>,
    /// Mounts below the directory of the cluster.
    mounts: Vec<String>,
    /// Cgroups of the cluster.
    cgroups: Vec<String>,
    /// Interfaces of the host.
    interfaces: Vec<String>,
    /// Rules of the host.
    rules: String,
    /// Whether the directory exists.
    directory: bool,
}

impl Traces {
    fn of(name: &str) -> Self {
        let dir = StateRoot::from_env().unwrap().dir(name);
        let text = dir.display().to_string();
        let cgroup = text.trim_matches('/').replace(['/', '.'], "-");
        let lines = |command: &str, args: &[&str]| {
            let output = Command::new(command).args(args).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let containing = |text: &str, part: &str| {
            text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
        };
        Self {
            processes: containing(&lines("ps", &["-eo", "args"]), &format!("{text}/")),
            mounts: containing(&fs::read_to_string("/proc/self/mountinfo").unwrap(), &text),
            cgroups: containing(&lines("find", &["/sys/fs/cgroup", "-maxdepth", "3", "-type", "d"]), &cgroup),
            interfaces: names(Path::new("/sys/class/net")),
            rules: lines("nft", &["list", "ruleset"]),
            directory: dir.exists(),
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn keeper(name: &str) -> Command {
    let mut keeper = Command::new(env!("CARGO_BIN_EXE_cluster-keeper"));
    keeper.args([name, "1"]);
    keeper
}

/// Starts a keeper in its own process group, and waits until it has printed the first `lines` of
/// [`STEPS`]. Lines about what it builds do not count.
fn start(name: &str, lines: usize) -> Child {
    let mut keeper = keeper(name);
    let mut child = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let progress = output.lines().map(Result::unwrap);
    let steps = progress.filter(|line| STEPS.iter().any(|step| line.starts_with(step)));
    assert_eq!(steps.take(lines).count(), lines, "the keeper has ended early");
    child
}

fn wait_until_equal(expected: &Traces, name: &str, what: &str) {
    let start = Instant::now();
    loop {
        let traces = Traces::of(name);
        if traces == *expected {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{what} left {traces:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
}

/// The keeper is killed at many moments of the start: directly after a line of progress, and some
/// time later.
#[test]
fn killed_launcher_leaves_nothing() {
    let name = format!("teardown-{}", std::process::id());
    let before = Traces::of(&name);
    for (lines, delay) in [(1, 0), (1, 150), (1, 700), (2, 0), (2, 400), (2, 1500), (3, 0), (4, 0)] {
        let mut child = start(&name, lines);
        std::thread::sleep(Duration::from_millis(delay));
        kill_process(pid(child.id()), Signal::KILL).unwrap();
        child.wait().unwrap();
        wait_until_equal(&before, &name, &format!("a kill {delay} ms after line {lines}"));
    }
}

/// If the reaper is killed as well, the next command cleans up.
#[tokio::test]
async fn next_command_cleans_up_after_reaper() {
    let name = format!("reaperless-{}", std::process::id());
    let before = Traces::of(&name);
    let mut child = start(&name, 4);
    let dir = StateRoot::from_env().unwrap().dir(&name).display().to_string();
    // The reaper comes first: it would act when the keeper ends.
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains("ensemble-reaper") && command.contains(&dir) {
            let id = entry.file_name().to_string_lossy().parse().unwrap();
            kill_process_group(pid(id), Signal::KILL).unwrap();
        }
    }
    kill_process(pid(child.id()), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert!(!Traces::of(&name).processes.is_empty(), "the nodes run without their keeper");
    assert!(!named::down(&name).unwrap());
    wait_until_equal(&before, &name, "`down` after a crash of keeper and reaper");
}

#[tokio::test]
async fn stopped_cluster_leaves_nothing_and_names_missing_requirements() {
    let name = format!("stopped-{}", std::process::id());
    let before = Traces::of(&name);
    let mut options = Options { name: Some(name.clone()), nodes: 1, real_nodes: 1, ..Options::default() };
    options.progress = Progress::silent();
    let cluster = cluster::Cluster::start(options.clone()).await.unwrap();
    assert_ne!(Traces::of(&name), before);
    cluster.stop().unwrap();
    wait_until_equal(&before, &name, "stop");

    options.real_nodes = cluster::real_nodes::MAX_REAL_NODES + 1;
    let error = cluster::Cluster::start(options).await.unwrap_err().to_string();
    assert!(error.contains("at most 20"), "{error}");
    assert_eq!(Traces::of(&name), before);
}
