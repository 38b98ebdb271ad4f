//! Directories of running clusters and their owners.
//!
//! The directory is `$XDG_RUNTIME_DIR/ensemble-<uid>/<name>/` (or under `/tmp`) and readable by its
//! owner only. The starter and its reaper hold a lock on `<name>/lock`. An unlocked directory
//! remains after a crash and can be removed.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, getuid, kill_process_group, test_kill_process};

use crate::binaries;
use crate::cgroups;
use crate::namespace::random_suffix;
use crate::private_dir::private_dir;

const LOCK: &str = "lock";
const OWNER: &str = "owner";
/// Prefix of directories that are being removed. A cluster's name cannot begin with a dot.
const TRASH: &str = ".swept-";
/// Far longer than a reaper needs.
const SWEEP_PATIENCE: Duration = Duration::from_secs(10);

/// Directory that contains the directories of all clusters of this user.
#[derive(Clone, Debug)]
pub struct StateRoot(PathBuf);

/// Claim on a name: the directory and its lock. Dropping it releases the name but does not remove
/// the directory.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) dir: PathBuf,
    pub(crate) lock: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        unlock(&self.lock);
    }
}

/// State of the owner of a cluster's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A process holds the lock.
    Present,
    /// No process holds the lock: the directory remains after a crash.
    Gone,
}

impl StateRoot {
    /// Returns the root in `$XDG_RUNTIME_DIR` or `/tmp`.
    pub fn from_env() -> Result<Self> {
        let base = std::env::var_os("XDG_RUNTIME_DIR")
            .filter(|dir| !dir.is_empty())
            .map_or_else(|| "/tmp".into(), PathBuf::from);
        Self::below(&base)
    }

    /// Returns the root in `base`.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created or belongs to another user, who could
    /// read its keys.
    pub fn below(base: &Path) -> Result<Self> {
        let uid = getuid().as_raw();
        let root = base.join(format!("ensemble-{uid}"));
        private_dir(&root)?;
        let owner = fs::symlink_metadata(&root)
            .with_context(|| format!("read the metadata of {}", root.display()))?;
        ensure!(
            owner.is_dir() && owner.uid() == uid && owner.mode() & 0o777 == 0o700,
            "cannot use {}: other users can read it, or it is no directory; remove it or set XDG_RUNTIME_DIR",
            root.display()
        );
        Ok(Self(root))
    }

    /// Returns the directory of a cluster.
    pub fn dir(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the name and owner state of every cluster, sorted by name.
    pub fn list(&self) -> Result<Vec<(String, Owner)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0).with_context(|| format!("list {}", self.0.display()))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.')
                && let Some(owner) = self.owner(&name)?
            {
                found.push((name, owner));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// Returns the owner state of a cluster. Returns `None` if the cluster does not exist.
    pub fn owner(&self, name: &str) -> Result<Option<Owner>> {
        let path = self.dir(name).join(LOCK);
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(self.dir(name).is_dir().then_some(Owner::Gone));
            }
            Err(error) => return Err(error).with_context(|| format!("open {}", path.display())),
        };
        if !try_lock(&lock)? {
            return Ok(Some(Owner::Present));
        }
        unlock(&lock);
        Ok(Some(Owner::Gone))
    }

    /// Claims a name for this process. Waits for the cleanup of an owner that ended a moment ago.
    ///
    /// # Errors
    /// Returns an error if another process owns the name.
    pub(crate) fn claim(&self, name: &str) -> Result<Claim> {
        let since = std::time::Instant::now();
        loop {
            if let Some(claim) = self.try_claim(name)? {
                clear(&claim.dir)?;
                let owner = claim.dir.join(OWNER);
                fs::write(&owner, std::process::id().to_string())
                    .with_context(|| format!("write {}", owner.display()))?;
                return Ok(claim);
            }
            let owner = owner_pid(&self.dir(name));
            if owner.is_some_and(is_alive) || since.elapsed() > SWEEP_PATIENCE {
                let by = owner.map_or_else(String::new, |pid| format!(" (owned by process {pid})"));
                bail!("cannot start the cluster {name:?}: it runs already{by}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns `None` if another process holds the lock, possibly for a sweep.
    fn try_claim(&self, name: &str) -> Result<Option<Claim>> {
        let dir = self.dir(name);
        private_dir(&dir)?;
        let path = dir.join(LOCK);
        let Some(lock) = open_lock(&path)? else { return Ok(None) };
        if !try_lock(&lock)? {
            return Ok(None);
        }
        // A sweep between the two steps above has moved the file that is locked here.
        let same = fs::metadata(&path).ok().map(|at_path| at_path.ino())
            == lock.metadata().ok().map(|held| held.ino());
        Ok(same.then_some(Claim { dir, lock }))
    }

    /// Removes directories without an owner and kills the processes that still use them. Returns
    /// the names.
    pub fn sweep(&self) -> Result<Vec<String>> {
        let mut swept = Vec::new();
        for (name, owner) in self.list()? {
            if owner == Owner::Gone
                && let Some(claim) = self.try_claim(&name)?
            {
                kill_processes_in(&claim.dir);
                cgroups::remove(&cgroups::name(&claim.dir), None)?;
                let trash = self.0.join(format!("{TRASH}{}-{name}", random_suffix()));
                fs::rename(&claim.dir, &trash)
                    .with_context(|| format!("move {} away", claim.dir.display()))?;
                swept.push(name);
            }
        }
        self.empty_trash();
        Ok(swept)
    }

    /// Removes swept directories. A directory that another process is removing is skipped until the
    /// next sweep.
    fn empty_trash(&self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(TRASH) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Returns the process that started the cluster in `dir`.
pub(crate) fn owner_pid(dir: &Path) -> Option<u32> {
    fs::read_to_string(dir.join(OWNER)).ok()?.trim().parse().ok()
}

/// Returns whether a process with this ID exists and this user can signal it.
pub fn is_alive(pid: u32) -> bool {
    to_pid(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

pub(crate) fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn open_lock(path: &Path) -> Result<Option<File>> {
    match File::options().create(true).append(true).open(path) {
        Ok(lock) => Ok(Some(lock)),
        // Another process swept the directory.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("open {}", path.display())),
    }
}

fn try_lock(lock: &File) -> Result<bool> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error).context("lock the cluster's directory"),
    }
}

/// Releases the lock at once. Closing the file is not enough: a process that another thread starts at
/// this moment has a copy of it until it executes its program.
fn unlock(lock: &File) {
    // Unlocking a file that is open does not fail.
    let _ = flock(lock, FlockOperation::Unlock);
}

/// Removes the files of an earlier owner, except the lock.
fn clear(dir: &Path) -> Result<()> {
    kill_processes_in(dir);
    cgroups::remove(&cgroups::name(dir), None)?;
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let entry = entry?;
        if entry.file_name() != LOCK {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Kills the servers that have `dir` in their command line. This check protects processes that
/// reuse a recorded ID.
fn kill_processes_in(dir: &Path) {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for entry in processes.flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if is_server_in(dir, &String::from_utf8_lossy(&command))
            && let Some(group) =
                entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(to_pid)
        {
            // The process may have exited already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Returns whether `command`, the NUL-separated arguments from `/proc`, is a server in `dir`. A
/// program that only reads a log there is not a server.
fn is_server_in(dir: &Path, command: &str) -> bool {
    let program =
        command.split('\0').next().and_then(|program| program.rsplit('/').next()).unwrap_or_default();
    // `unshare` is the owner of the namespaces of a real node.
    (binaries::NAMES.contains(&program) || program == "unshare")
        && command.contains(&format!("{}/", dir.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn root() -> (tempfile::TempDir, StateRoot) {
        let base = tempfile::tempdir().unwrap();
        let root = StateRoot::below(base.path()).unwrap();
        (base, root)
    }

    #[test]
    fn name_is_claimed_once() {
        let (_base, root) = root();
        let claim = root.claim("one").unwrap();
        let error = root.claim("one").unwrap_err().to_string();
        assert!(error.contains("runs already") && error.contains(&std::process::id().to_string()), "{error}");
        assert_eq!(root.list().unwrap(), [("one".to_owned(), Owner::Present)]);
        drop(claim);
        assert_eq!(root.owner("one").unwrap(), Some(Owner::Gone));
        root.claim("one").unwrap();
    }

    #[test]
    fn sweeps_only_directories_without_owner() {
        let (_base, root) = root();
        let running = root.claim("running").unwrap();
        let left = root.claim("left").unwrap();
        fs::write(left.dir.join("data"), "x").unwrap();
        drop(left);
        assert_eq!(root.sweep().unwrap(), ["left"]);
        assert!(running.dir.exists());
        assert_eq!(root.owner("left").unwrap(), None);
    }

    #[test]
    fn claim_clears_directory_of_earlier_owner() {
        let (_base, root) = root();
        let first = root.claim("one").unwrap();
        fs::create_dir(first.dir.join("etcd")).unwrap();
        fs::write(first.dir.join("etcd/data"), "x").unwrap();
        drop(first);
        let second = root.claim("one").unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&second.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [LOCK, OWNER]);
    }

    #[test]
    fn kills_only_servers_of_swept_directory() {
        let dir = Path::new("/tmp/ensemble-1/one");
        assert!(is_server_in(dir, "/bin/etcd\0--data-dir=/tmp/ensemble-1/one/etcd\0"));
        assert!(!is_server_in(dir, "/bin/etcd\0--data-dir=/tmp/ensemble-1/one-more/etcd\0"));
        assert!(!is_server_in(dir, "less\0/tmp/ensemble-1/one/etcd.log\0"));
    }

    #[test]
    fn rejects_directory_readable_by_others() {
        let (base, root) = root();
        fs::set_permissions(&root.0, fs::Permissions::from_mode(0o755)).unwrap();
        let error = StateRoot::below(base.path()).unwrap_err().to_string();
        assert!(error.contains("other users can read it"), "{error}");
    }
}
