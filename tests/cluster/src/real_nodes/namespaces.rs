//! Processes with Linux namespaces of their own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::command;
use crate::lifeline::Lifeline;
use crate::process::Process;

/// Far longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

/// A process that owns namespaces. When it ends, all processes, mounts, and interfaces in them end.
#[derive(Debug)]
pub(super) struct Namespaces {
    /// `unshare`. It kills its child when it is killed.
    outer: Process,
    /// The first process in the namespaces.
    init: u32,
}

impl Namespaces {
    /// Runs `script` in new namespaces, and waits until it has created the file `ready`. The script
    /// must not end.
    ///
    /// `kinds` are flags of `unshare`, beside `--net`, `--mount`, and `--pid`.
    pub(super) fn create(
        name: &str,
        kinds: &[&str],
        script: &Path,
        args: &[&str],
        ready: &Path,
        log: &Path,
        lifeline: &Lifeline,
    ) -> Result<Self> {
        match fs::remove_file(ready) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", ready.display()));
            }
            _ => {}
        }
        let mut arguments: Vec<String> =
            ["--net", "--mount", "--pid"].iter().chain(kinds).map(|kind| (*kind).to_owned()).collect();
        arguments.extend(["--fork", "--kill-child=KILL", "/bin/sh"].map(str::to_owned));
        arguments.push(script.display().to_string());
        arguments.extend(args.iter().map(|arg| (*arg).to_owned()));
        let mut outer =
            Process::start(name, Path::new("unshare"), &arguments, &[], log.to_owned(), lifeline)?;
        let start = Instant::now();
        while !ready.exists() {
            outer.ensure_running()?;
            if start.elapsed() > PATIENCE {
                bail!("{name} was not ready after {} s; its log is {}", PATIENCE.as_secs(), log.display());
            }
            std::thread::sleep(POLL);
        }
        let init = child_of(outer.pid()).with_context(|| format!("find the first process of {name}"))?;
        Ok(Self { outer, init })
    }

    /// Returns the ID of the first process in the namespaces.
    pub(super) fn init(&self) -> u32 {
        self.init
    }

    pub(super) fn ensure_running(&mut self) -> Result<()> {
        self.outer.ensure_running()
    }

    /// Kills all processes in the namespaces.
    pub(super) fn kill(self, lifeline: &Lifeline) -> Result<()> {
        self.outer.kill(lifeline)
    }

    /// Waits for a process that the lifeline has killed.
    pub(super) fn reap(&mut self) {
        self.outer.reap();
    }

    /// Runs a command in the network namespace, with `input` as its standard input.
    ///
    /// # Errors
    /// Returns an error with the command and its standard error if it fails.
    pub(super) fn run(&self, command: &[&str], input: &str) -> Result<()> {
        run_in_network(self.init, command, input)
    }
}

/// Runs a command in the network namespace of a process.
pub(super) fn run_in_network(pid: u32, args: &[&str], input: &str) -> Result<()> {
    let mut nsenter = Command::new("nsenter");
    nsenter.arg(format!("--net=/proc/{pid}/ns/net")).arg("--").args(args);
    let shown = || format!("run {} in the network of process {pid}", args.join(" "));
    command::run(nsenter, input).with_context(shown).map(drop)
}

/// Runs `ip` in the namespace of this process.
pub(super) fn ip(args: &[impl AsRef<OsStr>]) -> Result<()> {
    let mut ip = Command::new("ip");
    ip.args(args);
    let shown = format!("{ip:?}");
    command::run(ip, "").with_context(|| shown).map(drop)
}

/// Moves the calling thread into the network namespace of a process. Sockets that the thread
/// creates afterwards belong to this namespace.
pub(super) fn enter_network(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/ns/net");
    let namespace = File::open(&path).with_context(|| format!("open {path}"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("enter the network namespace {path}"))
}

fn child_of(pid: u32) -> Result<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let child = children.split_whitespace().next().context("the process has no child")?;
    child.parse().context("parse the ID of the child")
}
