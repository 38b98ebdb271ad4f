//! Builds the programs of this workspace with cargo.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Returns the root folder of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_owned).unwrap_or_default()
}

/// Returns the running cargo as a command in a folder.
///
/// Removes the environment variables that describe the current package. Some build scripts (for
/// example ring's) depend on them: with other values, cargo would rebuild them and their
/// dependents.
pub fn cargo_in(folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    for (name, _) in std::env::vars_os() {
        if ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|own| name.to_string_lossy().starts_with(own)) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Builds the manager and returns the path of the program.
///
/// # Errors
/// Returns an error if cargo cannot be run or the build fails.
pub fn build_manager(release: bool) -> Result<PathBuf> {
    build("manager", "ensemble-manager", release)
}

/// Builds ensemblectl and returns the path of the program.
///
/// # Errors
/// Returns an error if cargo cannot be run or the build fails.
pub fn build_ensemblectl(release: bool) -> Result<PathBuf> {
    build("ensemblectl", "ensemblectl", release)
}

/// Builds the instance manager of PostgreSQL and returns the path of the program.
///
/// # Errors
/// Returns an error if cargo cannot be run or the build fails.
pub fn build_instance(release: bool) -> Result<PathBuf> {
    build("postgres-instance", "ensemble-instance", release)
}

/// Builds the proxy of Tenants and returns the path of the program.
///
/// # Errors
/// Returns an error if cargo cannot be run or the build fails.
pub fn build_proxy(release: bool) -> Result<PathBuf> {
    build("tenant-proxy", "ensemble-proxy", release)
}

fn build(package: &str, program: &str, release: bool) -> Result<PathBuf> {
    let mut cargo = cargo_in(&workspace());
    cargo.args(["build", "--quiet", "--message-format=json-render-diagnostics"]);
    cargo.args(["--package", package, "--bin", program]);
    if release {
        cargo.arg("--release");
    } else {
        // Enables the features of the tests, so that both share the build of their dependencies.
        cargo.args(["--package", "xtask"]);
    }
    let output = cargo.stderr(Stdio::inherit()).output().context("run cargo")?;
    ensure!(output.status.success(), "cannot build {program}; see the errors of cargo above");
    executables(&String::from_utf8_lossy(&output.stdout))
        .pop()
        .with_context(|| format!("cargo reported no executable for {program}"))
}

/// Returns the executables in cargo's JSON messages.
pub fn executables(messages: &str) -> Vec<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from)).collect()
}
