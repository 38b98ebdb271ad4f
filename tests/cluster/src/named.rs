//! Clusters that a person starts, leaves running in the background and stops by name.
//!
//! A keeper, a process apart from the terminal, owns the cluster. While it starts, `up` and the keeper hold the two ends of two pipes: the keeper
//! tells how it goes, and ends when `up` does. Once the cluster is usable `up` lets go of it with one word.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::cluster::is_dns_label;
use crate::record::Record;
use crate::state::{Owner, StateRoot, owner_pid, to_pid};
use crate::{Cluster, Options, Progress};

/// The name of a cluster when none is given.
pub const DEFAULT_NAME: &str = "ensemble";

const READY: &str = "ready";
const LET_GO: &[u8] = b"keep\n";
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Starts the cluster `name` by running `keeper`, a command that calls [`keep`], and returns when the cluster is usable. If this process ends
/// before, so does the cluster.
///
/// # Errors
/// When the cluster runs already, or does not start.
pub fn up(name: &str, mut keeper: Command, progress: &Progress) -> Result<Record> {
    ensure_name(name)?;
    let root = StateRoot::from_env()?;
    if root.owner(name)? == Some(Owner::Present) {
        let owner = owner_pid(&root.dir(name)).map_or_else(String::new, |pid| format!(" (process {pid})"));
        bail!("the cluster {name:?} runs already{owner}; `down` stops it");
    }
    let mut child = keeper
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start the keeper, {}", keeper.get_program().display()))?;
    let complaint = collect_complaint(&mut child);
    relay(&mut child, progress)?;
    let record = Record::read(&root.dir(name))?;
    match (record, child.stdin.take()) {
        (Some(record), Some(mut stdin)) if record.owner == child.id() => {
            stdin.write_all(LET_GO).context("the keeper ended just after the cluster became usable")?;
            Ok(record)
        }
        _ => {
            child.wait().context("wait for the keeper")?;
            bail!("the cluster {name:?} did not start: {}", complaint.join().unwrap_or_default().trim())
        }
    }
}

/// The keeper must not hold the terminal's standard error, which others wait for the end of.
fn collect_complaint(child: &mut Child) -> std::thread::JoinHandle<String> {
    let stderr = child.stderr.take();
    std::thread::spawn(move || {
        let mut text = String::new();
        // What was read before a failure is still worth showing.
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut text));
        text
    })
}

/// Tells what the keeper tells, until it closes its output: because the cluster is usable, or because it has ended.
fn relay(child: &mut Child, progress: &Progress) -> Result<()> {
    let output = child.stdout.take().context("the keeper has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("read what the keeper says")?;
        if line == READY {
            break;
        }
        progress.say(line);
    }
    Ok(())
}

/// Owns a cluster until a signal asks to stop, or until whoever started it ends before the cluster is usable. For a process of its own, which
/// it detaches from the terminal.
///
/// # Errors
/// When the cluster does not start.
pub async fn keep(options: Options) -> Result<()> {
    // Fails only for the leader of a process group, which is apart from the terminal's foreground already.
    let _ = rustix::process::setsid();
    let mut terminate = signal(SignalKind::terminate()).context("listen for the signal to stop")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for the signal to stop")?;
    let starter = starter_ends_or_lets_go();
    // Nobody listens any more once the starter has let go.
    let progress = Progress::new(|line| drop(writeln!(std::io::stdout(), "{line}")));
    let options = Options { progress: progress.clone(), ..options };
    let stopped = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::pin!(stopped, starter);
    let cluster = tokio::select! {
        outcome = Cluster::start(options) => outcome?,
        () = &mut stopped => bail!("asked to stop while starting"),
        _ = &mut starter => bail!("whoever started this has ended"),
    };
    progress.say(READY);
    tokio::select! {
        () = &mut stopped => {}
        let_go = &mut starter => if let_go { stopped.await },
    }
    cluster.stop()
}

/// Whether the starter has let go; `false` when it has ended.
async fn starter_ends_or_lets_go() -> bool {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut word = Vec::new();
        let read = std::io::stdin().take(LET_GO.len() as u64).read_to_end(&mut word);
        // The keeper may have stopped for another reason.
        let _ = sender.send(read.is_ok() && word == LET_GO);
    });
    receiver.await.unwrap_or(false)
}

/// Stops the cluster `name` and returns when nothing of it runs and the name is free. `false` when none runs; what a crash left of it is removed.
///
/// # Errors
/// When its keeper does not stop in time.
pub fn down(name: &str) -> Result<bool> {
    ensure_name(name)?;
    let root = StateRoot::from_env()?;
    if root.owner(name)? != Some(Owner::Present) {
        root.sweep()?;
        return Ok(false);
    }
    let pid = owner_pid(&root.dir(name)).and_then(to_pid);
    if let Some(pid) = pid {
        // It may be stopping already, then there is nothing to ask for.
        let _ = kill_process(pid, Signal::TERM);
    }
    let start = Instant::now();
    while root.owner(name)? == Some(Owner::Present) {
        if start.elapsed() > STOP_PATIENCE {
            let dir = root.dir(name);
            bail!(
                "the keeper of {name:?} has not stopped after {} s; its logs are in {}",
                STOP_PATIENCE.as_secs(),
                dir.display()
            );
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

/// A cluster as `status` shows it.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Where its files are.
    pub dir: PathBuf,
    /// Whether somebody owns it.
    pub owner: Owner,
    /// What it tells about itself, once it is ready.
    pub record: Option<Record>,
}

/// All clusters of this user, those that a crash left included.
pub fn status() -> Result<Vec<Status>> {
    let root = StateRoot::from_env()?;
    root.list()?.into_iter().map(|(name, owner)| status_of(&root.dir(&name), name, owner)).collect()
}

fn status_of(dir: &Path, name: String, owner: Owner) -> Result<Status> {
    Ok(Status { name, dir: dir.to_owned(), owner, record: Record::read(dir)? })
}

fn ensure_name(name: &str) -> Result<()> {
    ensure!(
        is_dns_label(name),
        "{name:?} cannot name a cluster: use at most 40 of a-z, 0-9 and -, beginning and ending with a letter or digit"
    );
    Ok(())
}
