//! The program under test: built once, and run to its end where it is to end by itself.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    time::{Duration, Instant},
};

use cluster::program::build_manager;

/// Where the manager is; built by whoever asks first.
pub(crate) fn program() -> &'static Path {
    // The same build as that of the tests, so that there is nothing to do when the workspace has been built.
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| build_manager(!cfg!(debug_assertions)).unwrap());
    &PROGRAM
}

/// How the manager ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// What it said on standard error.
    pub(crate) said: String,
    /// How long that took.
    pub(crate) took: Duration,
}

/// Runs the manager to its end. Nothing of the tester's own configuration is seen by it.
pub(crate) fn run_to_end(args: &[&str], env: &[(&str, &str)]) -> Ended {
    let nowhere = tempfile::tempdir().unwrap();
    let said = nowhere.path().join("said");
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
        .stderr(std::fs::File::create(&said).unwrap())
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
    Ended { code, took: began.elapsed(), said: std::fs::read_to_string(said).unwrap() }
}

/// A port on 127.0.0.1 that nobody uses at present.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
