//! The program under test: built once, and run to its end where it is to end by itself.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Where the manager is; built by whoever asks first.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(build);
    &PROGRAM
}

/// The same build as that of the tests, so that there is nothing to do when the workspace has been built.
fn build() -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    // What cargo tells a test of its package would have build scripts that watch it run anew.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|own| name.to_string_lossy().starts_with(own)) {
            cargo.env_remove(name);
        }
    }
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "xtask",
        "--package",
        "manager",
        "--bin",
        "ensemble-manager",
        "--message-format=json-render-diagnostics",
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.stderr(Stdio::inherit()).output().expect("cargo should run");
    assert!(output.status.success(), "the manager does not build");
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs =
        messages.filter_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)));
    programs.next().expect("cargo should say where the manager is")
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
