//! Shell session that runs the commands of a page.

use std::{
    env,
    ffi::OsString,
    fs,
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use cluster::{Progress, binaries::Locator, wait::eventually};
use tempfile::TempDir;

/// Cleans up when the pipe closes, however the test ends: kills the shell's process group, then
/// stops the clusters, which run in their own groups.
const CLEANER: &str = r#"
read -r _
kill -KILL -"$1" 2>/dev/null
for dir in "$XDG_RUNTIME_DIR"/ensemble-*/*/; do
  [ ! -d "$dir" ] || cargo xtask cluster down --name "$(basename "$dir")"
done
rm -rf -- "$2"
"#;

/// A shell at the root of the repository with its own home and its own directory for clusters.
pub(super) struct Session {
    shell: Child,
    cleaner: Child,
    /// Dropped first, which starts the cleaner.
    pipe: Option<ChildStdin>,
    scratch: PathBuf,
    steps: usize,
}

/// Result of a command.
#[derive(Debug)]
pub(super) struct CommandResult {
    pub(super) code: i32,
    /// Combined standard output and standard error.
    pub(super) output: String,
}

impl Session {
    /// Starts a shell that finds `programs`, the programs of a cluster, and those on the user's
    /// `PATH`.
    pub(super) fn start(programs: &[PathBuf]) -> Self {
        let scratch = TempDir::with_prefix("ensemble-page-").unwrap().keep();
        for dir in ["home", "run", "tmp"] {
            fs::create_dir(scratch.join(dir)).unwrap();
        }
        let mut shell = clean("bash", &scratch, programs);
        let shell =
            shell.args(["--noprofile", "--norc"]).stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut cleaner = clean("sh", &scratch, &[]);
        cleaner.args(["-c", CLEANER, "cleaner", &shell.id().to_string()]).arg(&scratch);
        cleaner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut cleaner = cleaner.spawn().unwrap();
        let pipe = cleaner.stdin.take();
        Self { shell, cleaner, pipe, scratch, steps: 0 }
    }

    /// Runs a command in the shell and waits until it exits.
    pub(super) async fn run(&mut self, command: &str, limit: Duration) -> Result<CommandResult, String> {
        self.steps += 1;
        let file = |kind: &str| self.scratch.join(format!("{}.{kind}", self.steps));
        let (script, output, code) = (file("sh"), file("output"), file("code"));
        fs::write(&script, format!("{command}\n")).unwrap();
        let [script, shown, written, done] =
            [&script, &output, &file("code.part"), &code].map(|path| path.display().to_string());
        let line = format!(
            "source '{script}' > '{shown}' 2>&1 < /dev/null; echo $? > '{written}'; mv '{written}' '{done}'\n"
        );
        let error = self.shell.stdin.as_mut().unwrap().write_all(line.as_bytes());
        let shell = &mut self.shell;
        let ended =
            eventually(
                "the command to end",
                limit,
                async || Ok(code.exists() || shell.try_wait()?.is_some()),
            );
        let ended = ended.await;
        let output = fs::read_to_string(&output).unwrap_or_default();
        match (error, ended) {
            (Ok(()), Ok(())) if code.exists() => {
                Ok(CommandResult { code: fs::read_to_string(code).unwrap().trim().parse().unwrap(), output })
            }
            (Ok(()), Err(_)) => Err(format!("timed out after {limit:?}; output:\n{output}")),
            _ => Err(format!("the command exited the shell; output:\n{output}")),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // Both may have been killed already.
        let _ = self.shell.wait();
        let _ = self.cleaner.wait();
    }
}

/// Returns a command without the user's own configuration, but with the user's cargo and its
/// caches.
fn clean(program: &str, scratch: &Path, programs: &[PathBuf]) -> Command {
    let binaries = Locator::from_env().unwrap().locate(&Progress::stderr()).unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    let programs = programs.iter().map(|program| program.parent().unwrap().to_owned());
    let path = [binaries.dir().to_owned()].into_iter().chain(programs).chain(env::split_paths(&path));
    let mut command = Command::new(program);
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| is_of_cargo(&name.to_string_lossy())))
        .envs(
            [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"), ("XDG_CACHE_HOME", ".cache")]
                .map(user_folder),
        )
        .env("PATH", env::join_paths(path).unwrap())
        .env("HOME", scratch.join("home"))
        .env("XDG_RUNTIME_DIR", scratch.join("run"))
        .env("TMPDIR", scratch.join("tmp"));
    command
}

/// Returns whether cargo needs this variable to reuse the build. Variables that describe the test's
/// package are excluded: build scripts that read them would run again.
fn is_of_cargo(name: &str) -> bool {
    let of_package = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_"];
    ["CARGO_", "RUST"].iter().any(|start| name.starts_with(start))
        && !of_package.iter().any(|start| name.starts_with(start))
        || name == "KUBEBUILDER_ASSETS"
}

/// Returns a folder of the user, from a variable or in the home directory.
fn user_folder((variable, within_home): (&'static str, &str)) -> (&'static str, OsString) {
    let at_home = || Path::new(&env::var_os("HOME").unwrap_or_default()).join(within_home).into_os_string();
    (variable, env::var_os(variable).unwrap_or_else(at_home))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn shell_keeps_variables_and_has_no_kubeconfig() {
        let mut session = Session::start(&[]);
        session.run("a=b; cd crates", SOON).await.unwrap();
        let answer = session.run("echo $a; basename $PWD; echo error >&2; false", SOON).await.unwrap();
        assert_eq!((answer.code, &*answer.output), (1, "b\ncrates\nerror\n"));
        let answer = session.run("echo ${KUBECONFIG:-nowhere}", SOON).await.unwrap();
        assert_eq!(answer.output, "nowhere\n");
    }

    #[tokio::test]
    async fn kills_background_processes() {
        let mut session = Session::start(&[]);
        let answer = session.run("sleep 600 & echo $!", SOON).await.unwrap();
        let pid: u32 = answer.output.trim().parse().unwrap();
        assert!(cluster::state::is_alive(pid));
        let scratch = session.scratch.clone();
        drop(session);
        let is_gone = async || Ok(!cluster::state::is_alive(pid) && !scratch.exists());
        eventually("the process to exit", SOON, is_gone).await.unwrap();
    }

    #[tokio::test]
    async fn timeout_error_contains_output() {
        let mut session = Session::start(&[]);
        let error = session.run("echo waiting; sleep 600", Duration::from_millis(500)).await.unwrap_err();
        assert!(error.contains("timed out after 500ms") && error.contains("waiting"), "{error}");
        let mut session = Session::start(&[]);
        let error = session.run("echo leaving; exit 3", SOON).await.unwrap_err();
        assert!(error.contains("exited the shell") && error.contains("leaving"), "{error}");
    }
}
