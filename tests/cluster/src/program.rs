//! The programs of this workspace, built by cargo for whoever is to run them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The cargo that runs us, in a folder.
///
/// It does not get to know of the package that this program belongs to. Some build scripts (ring's) ask for the
/// variables that tell of it; with other values than before they, and all that is built upon them, would be built
/// anew.
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

/// Where programs are kept that take long to build: `$XDG_CACHE_HOME/ensemble`, or `~/.cache/ensemble`. Nothing if the
/// environment names neither.
pub fn cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    cache.map(|cache| cache.join("ensemble"))
}

/// Builds the manager and returns where its program is.
///
/// # Errors
/// When cargo cannot be run, or the manager does not build.
pub fn build_manager(release: bool) -> Result<PathBuf> {
    build("manager", "ensemble-manager", release)
}

/// Builds the tool for those who run the manager and returns where its program is.
///
/// # Errors
/// When cargo cannot be run, or the tool does not build.
pub fn build_ensemblectl(release: bool) -> Result<PathBuf> {
    build("ensemblectl", "ensemblectl", release)
}

fn build(package: &str, program: &str, release: bool) -> Result<PathBuf> {
    let mut cargo = cargo_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    // Together with xtask, so that both, and the tests, share one build of their dependencies.
    let packages = ["--package", "xtask", "--package", "manager", "--package", package, "--bin", program];
    cargo.args(["build", "--quiet", "--message-format=json-render-diagnostics"]).args(packages);
    if release {
        cargo.arg("--release");
    }
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "{program} does not build");
    executable(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("cargo did not say where {program} is"))
}

/// The executable that cargo's messages name last.
pub fn executable(messages: &str) -> Option<PathBuf> {
    let mut messages = messages.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
}
