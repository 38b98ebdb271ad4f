//! Programs that tests need and that are written in Go: each is built from its pinned module, once per machine and version.

use std::{
    env::consts::{ARCH, OS},
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

/// promtool, with which alert rules are tested.
///
/// # Errors
/// As [`helm`].
pub fn promtool() -> Result<PathBuf> {
    PROMTOOL.locate()
}

/// Helm, with which the chart is tested. Built first if it is not in `$XDG_CACHE_HOME/ensemble` (or
/// `~/.cache/ensemble`), which takes some minutes.
///
/// # Errors
/// When it is not there and cannot be built: no Go, no network, no space.
pub fn helm() -> Result<PathBuf> {
    HELM.locate()
}

const PROMTOOL: Tool = Tool {
    name: "promtool",
    go_mod: include_str!("../modules/promtool/go.mod"),
    module: "github.com/prometheus/prometheus",
    package: "github.com/prometheus/prometheus/cmd/promtool",
    // Leaves out what finds targets in clouds, which is most of the program.
    tags: "remove_all_sd",
};
const HELM: Tool = Tool {
    name: "helm",
    go_mod: include_str!("../modules/helm/go.mod"),
    module: "helm.sh/helm/v4",
    package: "helm.sh/helm/v4/cmd/helm",
    tags: "",
};

/// A program, and the folder of `modules` that pins it.
struct Tool {
    name: &'static str,
    go_mod: &'static str,
    module: &'static str,
    package: &'static str,
    tags: &'static str,
}

impl Tool {
    fn locate(&self) -> Result<PathBuf> {
        let home = self.cache()?.join(format!("{}-{}-{OS}-{ARCH}", self.name, self.version()?));
        let program = home.join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let _lock = locked(&home.join("lock"))?;
        if !program.is_file() {
            self.build(&home, &program)?;
        }
        Ok(program)
    }

    fn cache(&self) -> Result<PathBuf> {
        cluster::program::cache().with_context(|| {
            format!("neither HOME nor XDG_CACHE_HOME is set, so there is no place for {}", self.name)
        })
    }

    /// The version that the Go module pins.
    fn version(&self) -> Result<&'static str> {
        let mut required = self.go_mod.lines().filter_map(|line| line.trim().strip_prefix(self.module));
        required
            .find_map(|rest| rest.strip_prefix(' ')?.split(' ').next())
            .with_context(|| format!("go.mod does not pin {}", self.module))
    }

    /// Builds it beside the place where it belongs, so that it appears there whole or not at all.
    fn build(&self, home: &Path, program: &Path) -> Result<()> {
        let name = self.name;
        eprintln!("building {name}, once; this takes some minutes");
        let work =
            tempfile::tempdir_in(home).with_context(|| format!("cannot make a folder to build {name} in"))?;
        let built = work.path().join(name);
        let output = Command::new("go")
            .arg("build")
            .arg("-C")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("modules").join(name))
            .args(["-mod=readonly", "-trimpath", "-ldflags=-s -w", "-tags", self.tags, "-o"])
            .arg(&built)
            .arg(self.package)
            .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local"), ("GOFLAGS", ""), ("GOWORK", "off")])
            .env("GOCACHE", work.path().join("cache"))
            .output()
            .with_context(|| format!("cannot run go, which builds {name}; install Go 1.26 or newer"))?;
        if !output.status.success() {
            bail!(
                "{name} could not be built; with a network (GOPROXY) it can, or copy it to {}:\n{}",
                program.display(),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        fs::rename(&built, program).with_context(|| format!("cannot move {name} to {}", program.display()))
    }
}

/// Waits for whoever builds the same.
fn locked(path: &Path) -> Result<File> {
    let lock = File::create(path).with_context(|| format!("cannot open {}", path.display()))?;
    flock(&lock, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_pins_a_version() {
        for tool in [PROMTOOL, HELM] {
            let version = tool.version().unwrap();
            assert!(version.starts_with('v') && !version.contains(char::is_whitespace), "{version}");
        }
    }
}
