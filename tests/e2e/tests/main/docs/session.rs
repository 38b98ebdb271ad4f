//! The terminal in which a page is followed.

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

/// Ends what a page has started when the pipe closes that only the test holds, however the test ends: kills the
/// shell's process group, then stops the clusters, which are apart from it.
const CLEANER: &str = r#"
read -r _
kill -KILL -"$1" 2>/dev/null
for dir in "$XDG_RUNTIME_DIR"/ensemble-*/*/; do
  [ ! -d "$dir" ] || cargo xtask cluster down --name "$(basename "$dir")"
done
rm -rf -- "$2"
"#;

/// A shell at the root of the repository with a home, and a place for clusters, of its own.
pub(super) struct Session {
    shell: Child,
    cleaner: Child,
    /// Dropped first of all, so that the cleaner begins.
    pipe: Option<ChildStdin>,
    scratch: PathBuf,
    steps: usize,
}

/// How a command ended.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: i32,
    /// Standard output and standard error, as a terminal shows them.
    pub(super) output: String,
}

impl Session {
    /// With these programs besides those of a cluster and the tester's own.
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

    /// Has the shell run a command, and waits for its end.
    pub(super) async fn run(&mut self, command: &str, limit: Duration) -> Result<Answer, String> {
        self.steps += 1;
        let file = |kind: &str| self.scratch.join(format!("{}.{kind}", self.steps));
        let (script, output, code) = (file("sh"), file("output"), file("code"));
        fs::write(&script, format!("{command}\n")).unwrap();
        let [script, shown, written, done] =
            [&script, &output, &file("code.part"), &code].map(|path| path.display().to_string());
        let line = format!(
            "source '{script}' > '{shown}' 2>&1 < /dev/null; echo $? > '{written}'; mv '{written}' '{done}'\n"
        );
        let told = self.shell.stdin.as_mut().unwrap().write_all(line.as_bytes());
        let shell = &mut self.shell;
        let ended =
            eventually(
                "the command to end",
                limit,
                async || Ok(code.exists() || shell.try_wait()?.is_some()),
            );
        let ended = ended.await;
        let output = fs::read_to_string(&output).unwrap_or_default();
        match (told, ended) {
            (Ok(()), Ok(())) if code.exists() => {
                Ok(Answer { code: fs::read_to_string(code).unwrap().trim().parse().unwrap(), output })
            }
            (Ok(()), Err(_)) => Err(format!("it did not end within {limit:?}, having printed\n{output}")),
            _ => Err(format!("it ended the shell, having printed\n{output}")),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // Either may have been killed already; then there is nothing to wait for.
        let _ = self.shell.wait();
        let _ = self.cleaner.wait();
    }
}

/// A program with nothing of the tester's own configuration, but with the tester's cargo and its caches.
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
        .envs([("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"), ("XDG_CACHE_HOME", ".cache")].map(kept))
        .env("PATH", env::join_paths(path).unwrap())
        .env("HOME", scratch.join("home"))
        .env("XDG_RUNTIME_DIR", scratch.join("run"))
        .env("TMPDIR", scratch.join("tmp"));
    command
}

/// Whether cargo builds differently, or elsewhere, with another value of this variable. What it tells a test of its
/// package is not of that kind, and would have build scripts that watch it run anew.
fn is_of_cargo(name: &str) -> bool {
    let of_package = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_"];
    ["CARGO_", "RUST"].iter().any(|start| name.starts_with(start))
        && !of_package.iter().any(|start| name.starts_with(start))
        || name == "KUBEBUILDER_ASSETS"
}

/// A folder of the tester's, whether named by a variable or in the tester's home.
fn kept((variable, within_home): (&'static str, &str)) -> (&'static str, OsString) {
    let at_home = || Path::new(&env::var_os("HOME").unwrap_or_default()).join(within_home).into_os_string();
    (variable, env::var_os(variable).unwrap_or_else(at_home))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_shell_remembers_what_was_set_and_knows_no_cluster() {
        let mut session = Session::start(&[]);
        session.run("a=b; cd crates", SOON).await.unwrap();
        let answer = session.run("echo $a; basename $PWD; echo told >&2; false", SOON).await.unwrap();
        assert_eq!((answer.code, &*answer.output), (1, "b\ncrates\ntold\n"));
        let answer = session.run("echo ${KUBECONFIG:-nowhere}", SOON).await.unwrap();
        assert_eq!(answer.output, "nowhere\n");
    }

    #[tokio::test]
    async fn what_a_page_leaves_running_is_ended() {
        let mut session = Session::start(&[]);
        let answer = session.run("sleep 600 & echo $!", SOON).await.unwrap();
        let pid: u32 = answer.output.trim().parse().unwrap();
        assert!(cluster::state::is_alive(pid));
        let scratch = session.scratch.clone();
        drop(session);
        let is_gone = async || Ok(!cluster::state::is_alive(pid) && !scratch.exists());
        eventually("the process to be gone", SOON, is_gone).await.unwrap();
    }

    #[tokio::test]
    async fn a_command_that_does_not_end_is_told_with_what_it_printed() {
        let mut session = Session::start(&[]);
        let told = session.run("echo waiting; sleep 600", Duration::from_millis(500)).await.unwrap_err();
        assert!(told.contains("did not end within 500ms") && told.contains("waiting"), "{told}");
        let mut session = Session::start(&[]);
        let told = session.run("echo leaving; exit 3", SOON).await.unwrap_err();
        assert!(told.contains("ended the shell") && told.contains("leaving"), "{told}");
    }
}
