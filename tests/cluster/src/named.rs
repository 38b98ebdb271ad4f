//! Named clusters that run in the background.
//!
//! A keeper, a process detached from the terminal, owns the cluster. Two pipes connect `up` and the
//! keeper while the cluster starts: the keeper reports its progress, and stops if `up` ends. When
//! the cluster is usable, `up` sends `DETACH` and the keeper continues on its own.

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

/// Default name of a cluster.
pub const DEFAULT_NAME: &str = "ensemble";

const READY: &str = "ready";
const DETACH: &[u8] = b"keep\n";
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Starts the cluster `name` by running `keeper`, a command that calls [`keep`], and returns when
/// the cluster is usable. If this process ends earlier, the cluster stops.
///
/// # Errors
/// Returns an error if the cluster runs already or does not start.
pub fn up(name: &str, mut keeper: Command, progress: &Progress) -> Result<Record> {
    ensure_name(name)?;
    let root = StateRoot::from_env()?;
    if root.owner(name)? == Some(Owner::Present) {
        let owner = owner_pid(&root.dir(name)).map_or_else(String::new, |pid| format!(" (process {pid})"));
        bail!("cannot start the cluster {name:?}: it runs already{owner}; stop it with `down`");
    }
    let mut child = keeper
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start the keeper, {}", keeper.get_program().display()))?;
    let stderr = collect_stderr(&mut child);
    relay(&mut child, progress)?;
    let record = Record::read(&root.dir(name))?;
    match (record, child.stdin.take()) {
        (Some(record), Some(mut stdin)) if record.owner == child.id() => {
            stdin.write_all(DETACH).context("the keeper ended just after the cluster became usable")?;
            Ok(record)
        }
        _ => {
            child.wait().context("wait for the keeper")?;
            bail!("the cluster {name:?} did not start: {}", stderr.join().unwrap_or_default().trim())
        }
    }
}

/// Reads the keeper's standard error. The keeper must not inherit the terminal's standard error: a
/// caller may wait until it is closed.
fn collect_stderr(child: &mut Child) -> std::thread::JoinHandle<String> {
    let stderr = child.stderr.take();
    std::thread::spawn(move || {
        let mut text = String::new();
        // Partial output is still useful in the error.
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut text));
        text
    })
}

/// Relays the keeper's progress until it is ready or closes its output.
fn relay(child: &mut Child, progress: &Progress) -> Result<()> {
    let output = child.stdout.take().context("the keeper has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("read the output of the keeper")?;
        if line == READY {
            break;
        }
        progress.report(line);
    }
    Ok(())
}

/// Owns a cluster until it receives SIGTERM or SIGINT, or until the starter ends before the cluster
/// is usable. Detaches this process from the terminal.
///
/// # Errors
/// Returns an error if the cluster does not start.
pub async fn keep(options: Options) -> Result<()> {
    // Fails only for the leader of a process group, which is already detached from the
    // foreground.
    let _ = rustix::process::setsid();
    let mut terminate = signal(SignalKind::terminate()).context("listen for the signal to stop")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for the signal to stop")?;
    let starter = wait_for_starter();
    // The output has no reader after the starter has detached.
    let progress = Progress::new(|line| drop(writeln!(std::io::stdout(), "{line}")));
    let options = Options { progress: progress.clone(), ..options };
    let stop_signal = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::pin!(stop_signal, starter);
    let cluster = tokio::select! {
        outcome = Cluster::start(options) => outcome?,
        () = &mut stop_signal => bail!("received a signal to stop while starting"),
        _ = &mut starter => bail!("the process that started the keeper has ended"),
    };
    progress.report(READY);
    tokio::select! {
        () = &mut stop_signal => {}
        detached = &mut starter => if detached { stop_signal.await },
    }
    cluster.stop()
}

/// Returns whether the starter has sent `DETACH`. Returns `false` if it has ended.
async fn wait_for_starter() -> bool {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut input = Vec::new();
        let read = std::io::stdin().take(DETACH.len() as u64).read_to_end(&mut input);
        // The receiver is dropped if the keeper stops for another reason.
        let _ = sender.send(read.is_ok() && input == DETACH);
    });
    receiver.await.unwrap_or(false)
}

/// Stops the cluster `name` and returns when its processes have ended and the name is free. If it
/// does not run, returns `false` and removes the files of a crashed cluster.
///
/// # Errors
/// Returns an error if the keeper does not stop in time.
pub fn down(name: &str) -> Result<bool> {
    ensure_name(name)?;
    let root = StateRoot::from_env()?;
    if root.owner(name)? != Some(Owner::Present) {
        root.sweep()?;
        return Ok(false);
    }
    let pid = owner_pid(&root.dir(name)).and_then(to_pid);
    if let Some(pid) = pid {
        // Fails if the keeper has stopped already.
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

/// State of a cluster, as shown by `status`.
#[derive(Clone, Debug)]
pub struct Status {
    /// Name of the cluster.
    pub name: String,
    /// Directory of the cluster.
    pub dir: PathBuf,
    /// Whether a process owns the cluster.
    pub owner: Owner,
    /// Record of the cluster, once it is ready.
    pub record: Option<Record>,
}

/// Returns all clusters of this user, including crashed ones.
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
