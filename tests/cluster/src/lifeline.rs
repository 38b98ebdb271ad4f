//! Cleans up after a process that cannot do it itself.
//!
//! A small shell, the reaper, waits on a pipe whose other end only the starter holds. When the
//! starter ends, even by `kill -9`, the pipe closes. The reaper then kills every registered process
//! and removes one directory, and the cgroups of real nodes. A parent-death signal would be simpler,
//! but it is bound to the starting thread and needs unsafe code.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::cgroups;

/// Script of the reaper. `add PID` and `drop PID` maintain the list of process groups. At the end
/// of input it kills them. The directory is renamed before it is removed, so that its name is free
/// at once.
const REAPER: &str = r#"
trap '' HUP INT TERM
groups=' '
while read -r verb group; do
  case $verb in
    add) groups="$groups$group " ;;
    drop) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
  esac
done
for group in $groups; do kill -KILL -"$group" 2>/dev/null; done
# The cgroups of real nodes can be removed when the last killed process has left them.
cgroups() { for dir in /sys/fs/cgroup/"$2" /sys/fs/cgroup/*/"$2"; do [ -d "$dir" ] && echo "$dir"; done; }
tries=0
while left=$(cgroups "$@"); [ -n "$left" ] && [ $tries -lt 200 ]; do
  find $left -depth -type d -exec rmdir {} + 2>/dev/null
  tries=$((tries + 1)); sleep 0.05
done
trash="${1%/*}/.swept-$$"
mv -- "$1" "$trash" 2>/dev/null
tries=0
until rm -rf -- "$trash" 2>/dev/null || [ $tries -ge 50 ]; do
  tries=$((tries + 1)); sleep 0.1
done
"#;

/// Script that delays a child until the reaper has registered it. Otherwise a child could outlive a
/// starter that ends in between.
const GATE: &str = r#"read -r _ && exec "$@" </dev/null"#;

/// Kills the processes spawned through it and removes its directory. This happens when it is
/// dropped and when this process ends.
#[derive(Debug)]
pub(crate) struct Lifeline {
    reaper: Child,
    pipe: Option<ChildStdin>,
}

impl Lifeline {
    /// Starts the reaper. The reaper holds `lock` until it has finished, so that no other process
    /// claims the directory before.
    pub(crate) fn new(remove: &Path, lock: &File) -> Result<Self> {
        let lock = lock.try_clone().context("share the lock with the reaper")?;
        let mut reaper = Command::new("/bin/sh")
            .args(["-c", REAPER, "ensemble-reaper"])
            .arg(remove)
            .arg(cgroups::name(remove))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(lock)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start /bin/sh as the reaper of child processes")?;
        let pipe = reaper.stdin.take();
        Ok(Self { reaper, pipe })
    }

    /// Starts `program` in its own process group and appends its output to `log`.
    pub(crate) fn spawn(
        &self,
        program: &Path,
        args: &[String],
        env: &[(String, String)],
        log: &File,
    ) -> Result<Child> {
        let output = || log.try_clone().map(Stdio::from).context("share the log file");
        let mut child = Command::new("/bin/sh")
            .args(["-c", GATE, "ensemble-gate"])
            .arg(program)
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(output()?)
            .stderr(output()?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        self.send("add", child.id())?;
        let gate = child.stdin.take();
        gate.map_or(Ok(()), |mut gate| gate.write_all(b"go\n")).context("release the started process")?;
        Ok(child)
    }

    /// Removes a process that has been waited for from the list: its ID may be reused.
    pub(crate) fn forget(&self, pid: u32) -> Result<()> {
        self.send("drop", pid)
    }

    fn send(&self, verb: &str, pid: u32) -> Result<()> {
        let mut pipe = self.pipe.as_ref().context("the reaper has been stopped")?;
        writeln!(pipe, "{verb} {pid}").context("write to the reaper: another process killed it")
    }

    /// Kills the processes, removes the directory, and waits until this is done. Does nothing the
    /// second time.
    pub(crate) fn cut(&mut self) {
        drop(self.pipe.take());
        // Fails only if the reaper has been waited for already.
        let _ = self.reaper.wait();
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.cut();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn sleeper(lifeline: &Lifeline, log: &File) -> Child {
        lifeline.spawn(Path::new("sleep"), &["600".to_owned()], &[], log).unwrap()
    }

    #[test]
    fn cut_kills_processes_and_removes_directory() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("state");
        fs::create_dir(&dir).unwrap();
        let log = File::create(root.path().join("log")).unwrap();
        let mut lifeline = Lifeline::new(&dir, &log).unwrap();
        let mut children = [sleeper(&lifeline, &log), sleeper(&lifeline, &log)];
        lifeline.cut();
        for child in &mut children {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        assert!(!dir.exists());
    }

    #[test]
    fn does_not_kill_forgotten_process() {
        let root = tempfile::tempdir().unwrap();
        let log = File::create(root.path().join("log")).unwrap();
        let mut lifeline = Lifeline::new(&root.path().join("none"), &log).unwrap();
        let mut children = [sleeper(&lifeline, &log), sleeper(&lifeline, &log), sleeper(&lifeline, &log)];
        lifeline.forget(children[1].id()).unwrap();
        lifeline.cut();
        assert_eq!(children[0].wait().unwrap().signal(), Some(9));
        assert_eq!(children[2].wait().unwrap().signal(), Some(9));
        assert!(children[1].try_wait().unwrap().is_none(), "the forgotten process must run");
        children[1].kill().unwrap();
        children[1].wait().unwrap();
    }

    #[test]
    fn passes_arguments_unchanged() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("log");
        let log = File::create(&path).unwrap();
        let lifeline = Lifeline::new(&root.path().join("none"), &log).unwrap();
        let args = ["%s|".to_owned(), "a b".to_owned(), "$HOME".to_owned(), "'\"".to_owned()];
        lifeline.spawn(Path::new("printf"), &args, &[], &log).unwrap().wait().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "a b|$HOME|'\"|");
    }
}
