//! Runs ensemblectl.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use cluster::program::build_ensemblectl;
use serde_json::Value;

use crate::support::TestEnv;

/// Result of ensemblectl.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs ensemblectl with a kubeconfig, without the user's own configuration.
pub(super) fn ctl_with(kubeconfig: &Path, args: &[&str]) -> Output {
    let kubeconfig = kubeconfig.display().to_string();
    run(args, &[("KUBECONFIG", &kubeconfig)])
}

/// Runs ensemblectl as the administrator of a cluster.
pub(super) fn ctl(env: &TestEnv, args: &[&str]) -> Output {
    ctl_with(env.cluster.kubeconfig(), args)
}

/// Returns the JSON output.
pub(super) fn ctl_json(env: &TestEnv, args: &[&str]) -> Value {
    let output = ctl(env, &[args, &["-o", "json"]].concat());
    serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Returns the path of ensemblectl. The first caller builds it.
fn program() -> &'static Path {
    // Uses the profile of the tests.
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| build_ensemblectl(!cfg!(debug_assertions)).unwrap());
    &PROGRAM
}

/// Runs ensemblectl with a closed standard output. Returns its exit code.
pub(super) fn run_unread(args: &[&str]) -> i32 {
    let mut child = Command::new(program()).args(args).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap().code().unwrap()
}

/// Runs ensemblectl with only these environment variables.
pub(super) fn run(args: &[&str], env: &[(&str, &str)]) -> Output {
    let nowhere = tempfile::tempdir().unwrap();
    let output = Command::new(program())
        .args(args)
        .env_clear()
        .env("HOME", nowhere.path())
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Output { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}
