//! Builds the manager and runs it until it exits.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    time::{Duration, Instant},
};

use cluster::{program::build_manager, reserve_address};

/// Returns the path of the manager. The first caller builds it.
pub(crate) fn program() -> &'static Path {
    // Uses the profile of the tests, so that cargo has nothing to do if the workspace is built.
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| build_manager(!cfg!(debug_assertions)).unwrap());
    &PROGRAM
}

/// Result of a manager that has exited.
#[derive(Debug)]
pub(crate) struct ExitedManager {
    /// Exit code.
    pub(crate) code: Option<i32>,
    /// Standard error.
    pub(crate) stderr: String,
    /// Time from start to exit.
    pub(crate) duration: Duration,
}

/// Runs the manager until it exits, without the user's own configuration.
pub(crate) fn run_to_exit(args: &[&str], env: &[(&str, &str)]) -> ExitedManager {
    let nowhere = tempfile::tempdir().unwrap();
    let stderr = nowhere.path().join("stderr");
    let program = program();
    let began = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .env("HOME", nowhere.path())
        .env("ENSEMBLE_WEBHOOK_BIND_ADDRESS", "127.0.0.1:0")
        .env("ENSEMBLE_METRICS_BIND_ADDRESS", "0")
        .envs(env.iter().copied())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&stderr).unwrap())
        .spawn()
        .unwrap();
    let limit = Duration::from_secs(20);
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if began.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    ExitedManager { code, duration: began.elapsed(), stderr: std::fs::read_to_string(stderr).unwrap() }
}

/// Reserves a port on 127.0.0.1 until the tests end. A manager can restart on it.
pub(crate) fn reserve_port() -> u16 {
    reserve_address().unwrap().port()
}
