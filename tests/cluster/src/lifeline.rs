//! What ends the processes of a starter that could not do it itself.
//!
//! A small shell waits on a pipe whose other end only the starter holds. However the starter ends, `kill -9` included, the pipe closes; the
//! shell then kills every process it was told of and removes one directory. A parent-death signal would be simpler, but is bound to the
//! starting thread and needs unsafe code.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context as _, Result};

/// `add PID` and `drop PID` keep the list of process groups; end of input acts on it. The directory is moved away before it is removed, so that
/// whoever takes its name next is not in the way, nor in danger.
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
trash="${1%/*}/.swept-$$"
mv -- "$1" "$trash" 2>/dev/null
tries=0
until rm -rf -- "$trash" 2>/dev/null || [ $tries -ge 50 ]; do
  tries=$((tries + 1)); sleep 0.1
done
"#;

/// A child runs only after the reaper knows it, else a starter that dies between the two would leave it behind.
const GATE: &str = r#"read -r _ && exec "$@" </dev/null"#;

/// Kills the processes spawned through it and removes its directory when dropped or when this process ends.
#[derive(Debug)]
pub(crate) struct Lifeline {
    reaper: Child,
    pipe: Option<ChildStdin>,
}

impl Lifeline {
    /// `lock` stays locked until the reaper has finished, so that nobody takes the directory for free before that.
    pub(crate) fn new(remove: &Path, lock: &File) -> Result<Self> {
        let lock = lock.try_clone().context("share the lock with the reaper")?;
        let mut reaper = Command::new("/bin/sh")
            .args(["-c", REAPER, "ensemble-reaper"])
            .arg(remove)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(lock)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start /bin/sh, which cleans up should this process be killed")?;
        let pipe = reaper.stdin.take();
        Ok(Self { reaper, pipe })
    }

    /// Starts `program` in a process group of its own, its output appended to `log`.
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
        self.tell("add", child.id())?;
        let gate = child.stdin.take();
        gate.map_or(Ok(()), |mut gate| gate.write_all(b"go\n")).context("let the started process run")?;
        Ok(child)
    }

    /// The process has been waited for: its id may soon belong to somebody else.
    pub(crate) fn forget(&self, pid: u32) -> Result<()> {
        self.tell("drop", pid)
    }

    fn tell(&self, verb: &str, pid: u32) -> Result<()> {
        let mut pipe = self.pipe.as_ref().context("the reaper has been ended")?;
        writeln!(pipe, "{verb} {pid}").context("the reaper is gone; something killed it")
    }

    /// Acts now and returns when the processes are killed and the directory is gone. Does nothing the second time.
    pub(crate) fn cut(&mut self) {
        drop(self.pipe.take());
        // The reaper ignores nothing that matters here, and a failed wait means that it has been waited for.
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
    fn cutting_kills_the_processes_and_removes_the_directory() {
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
    fn a_forgotten_process_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let log = File::create(root.path().join("log")).unwrap();
        let mut lifeline = Lifeline::new(&root.path().join("none"), &log).unwrap();
        let mut children = [sleeper(&lifeline, &log), sleeper(&lifeline, &log), sleeper(&lifeline, &log)];
        lifeline.forget(children[1].id()).unwrap();
        lifeline.cut();
        assert_eq!(children[0].wait().unwrap().signal(), Some(9));
        assert_eq!(children[2].wait().unwrap().signal(), Some(9));
        assert!(children[1].try_wait().unwrap().is_none(), "it was not to be killed");
        children[1].kill().unwrap();
        children[1].wait().unwrap();
    }

    #[test]
    fn arguments_reach_the_program_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("log");
        let log = File::create(&path).unwrap();
        let lifeline = Lifeline::new(&root.path().join("none"), &log).unwrap();
        let args = ["%s|".to_owned(), "a b".to_owned(), "$HOME".to_owned(), "'\"".to_owned()];
        lifeline.spawn(Path::new("printf"), &args, &[], &log).unwrap().wait().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "a b|$HOME|'\"|");
    }
}
