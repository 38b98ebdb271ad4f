//! The programs of PostgreSQL that run to their end, such as `initdb`.

use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use rustix::process::WaitStatus;
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver};
use tokio_util::task::AbortOnDropHandle;

use crate::processes::{Process, Processes};

/// Most bytes of the output of a program that are kept.
const MAX_OUTPUT: usize = 64 << 10;

/// The programs of PostgreSQL.
#[derive(Clone)]
pub(crate) struct Programs {
    /// Folder of the programs. `None`: they are found by `PATH`.
    folder: Option<PathBuf>,
    processes: Processes,
}

/// Error of a program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// It cannot be started.
    #[error("cannot start {program}; the image must have the programs of PostgreSQL in PATH")]
    Start {
        /// Name of the program.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Its output cannot be read.
    #[error("cannot read the output of {program}")]
    Output {
        /// Name of the program.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It failed.
    #[error("{program} failed with {status}: {message}")]
    Failed {
        /// Name of the program.
        program: &'static str,
        /// How it ended.
        status: String,
        /// The last lines that it printed.
        message: String,
    },
}

impl Programs {
    pub(crate) fn new(folder: Option<PathBuf>, processes: Processes) -> Self {
        Self { folder, processes }
    }

    /// Returns a command with messages in English.
    pub(crate) fn command(&self, program: &'static str) -> Command {
        let path = self.folder.as_ref().map_or_else(|| program.into(), |folder| folder.join(program));
        let mut command = Command::new(path);
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Starts a command.
    ///
    /// # Errors
    /// Returns an error if the program cannot be executed.
    pub(crate) fn spawn(
        &self,
        program: &'static str,
        command: &mut Command,
    ) -> Result<Process, ProgramError> {
        self.processes.spawn(command).map_err(|source| ProgramError::Start { program, source })
    }

    /// Runs a program and returns what it printed. If the future is dropped, the program is killed.
    ///
    /// # Errors
    /// Returns an error if it cannot be started, or fails.
    pub(crate) async fn output(
        &self,
        program: &'static str,
        args: &[&OsStr],
    ) -> Result<String, ProgramError> {
        self.output_in(None, program, args).await
    }

    /// Runs a program in a folder, as [`Self::output`] does.
    ///
    /// # Errors
    /// Returns an error if it cannot be started, or fails.
    pub(crate) async fn output_in(
        &self,
        folder: Option<&Path>,
        program: &'static str,
        args: &[&OsStr],
    ) -> Result<String, ProgramError> {
        let mut command = self.command(program);
        folder.map(|folder| command.current_dir(folder));
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = self.spawn(program, &mut command)?;
        let (stdout, stderr) = (process.stdout.take().map(Into::into), process.stderr.take().map(Into::into));
        let output = async { tokio::try_join!(read(stdout), read(stderr)) };
        let (output, errors) = output.await.map_err(|source| ProgramError::Output { program, source })?;
        let status = process.wait().await;
        if status.exit_status() == Some(0) {
            return Ok(output);
        }
        let message = if errors.trim().is_empty() { output } else { errors };
        Err(ProgramError::Failed { program, status: describe(status), message: tail(&message) })
    }

    /// Returns the folder of the programs.
    ///
    /// # Errors
    /// Returns an error if PATH has no `postgres`.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        match &self.folder {
            Some(folder) => Ok(folder.clone()),
            None => folder_in_path(),
        }
    }

    /// Returns the major version of PostgreSQL, such as 17.
    ///
    /// # Errors
    /// Returns an error if `postgres` cannot be run, or prints no version.
    pub(crate) async fn major_version(&self) -> Result<u16> {
        let output = self.output("postgres", &["--version".as_ref()]).await?;
        let version = output.split_whitespace().nth(2);
        let major = version.and_then(|version| version.split(['.', 'b', 'r']).next()?.parse().ok());
        major.with_context(|| format!("postgres --version printed {:?}", output.trim()))
    }
}

/// Returns the folder with the programs of PostgreSQL. PATH can have links to them.
///
/// # Errors
/// Returns an error if PATH has no `postgres`.
pub(crate) fn folder_in_path() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut programs = env::split_paths(&path).map(|folder| folder.join("postgres"));
    let program = programs.find_map(|program| program.canonicalize().ok());
    let folder = program.and_then(|program| program.parent().map(PathBuf::from));
    folder.context("PATH has no postgres; the image must have the programs of PostgreSQL in PATH")
}

/// A program whose output is read while it runs. It is killed when this is dropped.
pub(crate) struct Streaming {
    /// Its output.
    pub(crate) stdout: Receiver,
    program: &'static str,
    process: Process,
    errors: AbortOnDropHandle<io::Result<String>>,
}

impl Programs {
    /// Starts a program, to read its output.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub(crate) fn stream(&self, program: &'static str, args: &[String]) -> Result<Streaming, ProgramError> {
        let mut command = self.command(program);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = self.spawn(program, &mut command)?;
        let output = |source| ProgramError::Output { program, source };
        let missing = || output(io::ErrorKind::BrokenPipe.into());
        let stdout: std::os::fd::OwnedFd = process.stdout.take().ok_or_else(missing)?.into();
        let stdout = Receiver::from_owned_fd(stdout).map_err(output)?;
        let errors = tokio::spawn(read(process.stderr.take().map(Into::into)));
        Ok(Streaming { stdout, program, process, errors: AbortOnDropHandle::new(errors) })
    }
}

impl Streaming {
    /// Waits for the end of the program.
    ///
    /// # Errors
    /// Returns an error with its last lines if it failed.
    pub(crate) async fn ended(&mut self) -> Result<(), ProgramError> {
        let status = self.process.wait().await;
        if status.exit_status() == Some(0) {
            return Ok(());
        }
        let errors = (&mut self.errors).await.ok().and_then(Result::ok).unwrap_or_default();
        let (program, status) = (self.program, describe(status));
        Err(ProgramError::Failed { program, status, message: tail(&errors) })
    }
}

/// Reads a pipe to its end, and keeps the last bytes.
async fn read(pipe: Option<std::os::fd::OwnedFd>) -> io::Result<String> {
    let Some(pipe) = pipe else { return Ok(String::new()) };
    let mut pipe = Receiver::from_owned_fd(pipe)?;
    let (mut kept, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let bytes = pipe.read(&mut chunk).await?;
        if bytes == 0 {
            return Ok(String::from_utf8_lossy(&kept).into_owned());
        }
        kept.extend(chunk.iter().take(bytes));
        let surplus = kept.len().saturating_sub(MAX_OUTPUT);
        kept.drain(..surplus);
    }
}

/// Returns the last lines of a text, in one line.
fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let first = lines.len().saturating_sub(8);
    lines.get(first..).unwrap_or_default().join("; ")
}

/// Returns how a process ended, in words.
pub(crate) fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::CHILDREN;

    #[tokio::test]
    async fn output_is_returned_and_failures_name_the_reason() {
        let _children = CHILDREN.lock().await;
        let programs = Programs::new(None, Processes::new().unwrap());
        let run = async |script| programs.output("sh", &["-c".as_ref(), OsStr::new(script)]).await;
        assert_eq!(run("echo one; echo two >&2").await.unwrap(), "one\n");
        let error = run("echo one; echo 'no space' >&2; exit 3").await.unwrap_err();
        assert_eq!(error.to_string(), "sh failed with exit code 3: no space");
        let error = run("kill -9 $$").await.unwrap_err();
        assert_eq!(error.to_string(), "sh failed with signal 9: ");
        assert_eq!(run("head -c 100000 /dev/zero").await.unwrap().len(), MAX_OUTPUT);
        let error = programs.output("no-such-program", &[]).await.unwrap_err();
        assert!(error.to_string().starts_with("cannot start no-such-program"), "{error}");
    }
}
