//! promtool, built from its pinned Go module, once per machine and version.

use std::{
    env::consts::{ARCH, OS},
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

const GO_MOD: &str = include_str!("../promtool/go.mod");
const MODULE: &str = "github.com/prometheus/prometheus";
/// Leaves out what finds targets in clouds, which is most of the program.
const TAGS: &str = "remove_all_sd";

/// Where promtool is. Builds it first if it is not in `$XDG_CACHE_HOME/ensemble` (or `~/.cache/ensemble`), which takes
/// some minutes.
///
/// # Errors
/// When it is not there and cannot be built: no Go, no network, no space.
pub fn promtool() -> Result<PathBuf> {
    let cache = cache()?;
    let home = cache.join(format!("promtool-{}-{OS}-{ARCH}", version()?));
    let program = home.join("promtool");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    let _lock = locked(&home.join("lock"))?;
    if !program.is_file() {
        build(&home, &program)?;
    }
    Ok(program)
}

fn cache() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("XDG_CACHE_HOME")
        .or_else(|| Some(variable("HOME")?.join(".cache")))
        .map(|cache| cache.join("ensemble"))
        .context("neither HOME nor XDG_CACHE_HOME is set, so there is no place for promtool")
}

/// The version that the Go module pins.
fn version() -> Result<&'static str> {
    let mut required = GO_MOD.lines().filter_map(|line| line.trim().strip_prefix(MODULE));
    required
        .find_map(|rest| rest.strip_prefix(' ')?.split(' ').next())
        .context("go.mod does not pin Prometheus")
}

/// Waits for whoever builds the same.
fn locked(path: &Path) -> Result<File> {
    let lock = File::create(path).with_context(|| format!("cannot open {}", path.display()))?;
    flock(&lock, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(lock)
}

/// Builds it beside the place where it belongs, so that it appears there whole or not at all.
fn build(home: &Path, program: &Path) -> Result<()> {
    eprintln!("building promtool, once; this takes some minutes");
    let work = tempfile::tempdir_in(home).context("cannot make a folder to build promtool in")?;
    let built = work.path().join("promtool");
    let output = Command::new("go")
        .arg("build")
        .arg("-C")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("promtool"))
        .args(["-mod=readonly", "-trimpath", "-ldflags=-s -w", "-tags", TAGS, "-o"])
        .arg(&built)
        .arg(format!("{MODULE}/cmd/promtool"))
        .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local"), ("GOFLAGS", ""), ("GOWORK", "off")])
        .env("GOCACHE", work.path().join("cache"))
        .output()
        .context("cannot run go, which builds promtool; install Go 1.26 or newer")?;
    if !output.status.success() {
        bail!(
            "promtool could not be built; with a network (GOPROXY) it can, or copy it to {}:\n{}",
            program.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    fs::rename(&built, program).with_context(|| format!("cannot move promtool to {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_pins_a_version() {
        let version = version().unwrap();
        assert!(version.starts_with("v0.") && !version.contains(char::is_whitespace), "{version}");
    }
}
