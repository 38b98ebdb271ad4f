//! Running the tool as a person does.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use cluster::program::build_ensemblectl;
use serde_json::Value;

use crate::support::Stage;

/// What the tool said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs it with a kubeconfig. Nothing of the tester's own configuration is seen by it.
pub(super) fn ctl_with(kubeconfig: &Path, args: &[&str]) -> Said {
    let kubeconfig = kubeconfig.display().to_string();
    run(args, &[("KUBECONFIG", &kubeconfig)])
}

/// Runs it as the administrator of a cluster.
pub(super) fn ctl(stage: &Stage, args: &[&str]) -> Said {
    ctl_with(stage.cluster.kubeconfig(), args)
}

/// What it tells a program.
pub(super) fn ctl_json(stage: &Stage, args: &[&str]) -> Value {
    let said = ctl(stage, &[args, &["-o", "json"]].concat());
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

/// Where the tool is; built by whoever asks first.
fn program() -> &'static Path {
    // The same build as that of the tests.
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| build_ensemblectl(!cfg!(debug_assertions)).unwrap());
    &PROGRAM
}

/// Runs it with nobody who reads what it prints. Returns its exit code.
pub(super) fn run_unread(args: &[&str]) -> i32 {
    let mut child = Command::new(program()).args(args).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap().code().unwrap()
}

/// Runs it with these environment variables and no others.
pub(super) fn run(args: &[&str], env: &[(&str, &str)]) -> Said {
    let nowhere = tempfile::tempdir().unwrap();
    let output = Command::new(program())
        .args(args)
        .env_clear()
        .env("HOME", nowhere.path())
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}
