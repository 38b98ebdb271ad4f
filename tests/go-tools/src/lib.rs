//! Go programs that tests and clusters with real nodes need. Each is built from its pinned module,
//! once per machine and version.

use std::{
    env::consts::{ARCH, OS},
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

/// Returns the path of promtool, which tests alert rules.
///
/// # Errors
/// As [`helm`].
pub fn promtool() -> Result<PathBuf> {
    PROMTOOL.locate()
}

/// Returns the path of Helm, which tests the chart. Builds it first, which takes minutes, if it is
/// not in `$XDG_CACHE_HOME/ensemble` (or `~/.cache/ensemble`).
///
/// # Errors
/// Returns an error if Helm is missing and the build fails, for example without Go, network, or
/// disk space.
pub fn helm() -> Result<PathBuf> {
    HELM.locate()
}

/// Returns the path of Vale, which checks the prose of the documentation.
///
/// # Errors
/// As [`helm`].
pub fn vale() -> Result<PathBuf> {
    VALE.locate()
}

/// Returns the path of CoreDNS, the DNS server of clusters with real nodes.
///
/// # Errors
/// As [`helm`].
pub fn coredns() -> Result<PathBuf> {
    COREDNS.locate()
}

/// Returns the path of the local path provisioner, which creates volumes on real nodes.
///
/// # Errors
/// As [`helm`].
pub fn local_path_provisioner() -> Result<PathBuf> {
    LOCAL_PATH_PROVISIONER.locate()
}

/// Returns the path of the metrics server, which serves the usage of real nodes and their Pods.
///
/// # Errors
/// As [`helm`].
pub fn metrics_server() -> Result<PathBuf> {
    METRICS_SERVER.locate()
}

/// Returns the cache directory of built programs: `$XDG_CACHE_HOME/ensemble` or
/// `~/.cache/ensemble`. Returns `None` if neither variable is set.
pub fn cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    cache.map(|cache| cache.join("ensemble"))
}

const PROMTOOL: Tool = Tool {
    name: "promtool",
    go_mod: include_str!("../modules/promtool/go.mod"),
    module: "github.com/prometheus/prometheus",
    package: "github.com/prometheus/prometheus/cmd/promtool",
    // Leaves out the service discovery of cloud providers, which is most of the program.
    tags: "remove_all_sd",
    cgo: "0",
};
const HELM: Tool = Tool {
    name: "helm",
    go_mod: include_str!("../modules/helm/go.mod"),
    module: "helm.sh/helm/v4",
    package: "helm.sh/helm/v4/cmd/helm",
    tags: "",
    cgo: "0",
};

const VALE: Tool = Tool {
    name: "vale",
    go_mod: include_str!("../modules/vale/go.mod"),
    module: "github.com/vale-cli/vale/v3",
    package: "github.com/vale-cli/vale/v3/cmd/vale",
    tags: "",
    // The parsers of source code are written in C.
    cgo: "1",
};

const COREDNS: Tool = Tool {
    name: "coredns",
    go_mod: include_str!("../modules/coredns/go.mod"),
    module: "github.com/coredns/coredns",
    package: "github.com/coredns/coredns",
    tags: "",
    cgo: "0",
};

const LOCAL_PATH_PROVISIONER: Tool = Tool {
    name: "local-path-provisioner",
    go_mod: include_str!("../modules/local-path-provisioner/go.mod"),
    module: "github.com/rancher/local-path-provisioner",
    package: "github.com/rancher/local-path-provisioner",
    tags: "",
    cgo: "0",
};

const METRICS_SERVER: Tool = Tool {
    name: "metrics-server",
    go_mod: include_str!("../modules/metrics-server/go.mod"),
    module: "sigs.k8s.io/metrics-server",
    package: "sigs.k8s.io/metrics-server/cmd/metrics-server",
    tags: "",
    cgo: "0",
};

/// A program and the Go module that pins it.
struct Tool {
    name: &'static str,
    go_mod: &'static str,
    module: &'static str,
    package: &'static str,
    tags: &'static str,
    /// `1` if the program contains C code, else `0`.
    cgo: &'static str,
}

impl Tool {
    fn locate(&self) -> Result<PathBuf> {
        let home = self.cache()?.join(format!("{}-{}-{OS}-{ARCH}", self.name, self.version()?));
        let program = home.join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
        let _lock = acquire_lock(&home.join("lock"))?;
        if !program.is_file() {
            self.build(&home, &program)?;
        }
        Ok(program)
    }

    fn cache(&self) -> Result<PathBuf> {
        cache().with_context(|| {
            format!("cannot choose a directory for {}; set HOME or XDG_CACHE_HOME", self.name)
        })
    }

    /// Returns the version that the Go module pins.
    fn version(&self) -> Result<&'static str> {
        let mut required = self.go_mod.lines().filter_map(|line| line.trim().strip_prefix(self.module));
        required
            .find_map(|rest| rest.strip_prefix(' ')?.split(' ').next())
            .with_context(|| format!("go.mod does not pin {}", self.module))
    }

    /// Builds the program under another name and renames it, so that it appears complete or not at
    /// all. Go's own build cache is used: most of these programs share the libraries of Kubernetes.
    fn build(&self, home: &Path, program: &Path) -> Result<()> {
        let name = self.name;
        eprintln!("building {name}; this takes minutes and happens once");
        let built = home.join(format!("{name}.building"));
        let output = Command::new("go")
            .arg("build")
            .arg("-C")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("modules").join(name))
            .args(["-mod=readonly", "-trimpath", "-ldflags=-s -w", "-tags", self.tags, "-o"])
            .arg(&built)
            .arg(self.package)
            .envs([("CGO_ENABLED", self.cgo), ("GOTOOLCHAIN", "local"), ("GOFLAGS", ""), ("GOWORK", "off")])
            .output()
            .with_context(|| format!("run go to build {name}; install Go 1.26 or newer"))?;
        if !output.status.success() {
            bail!(
                "cannot build {name}; check the network and GOPROXY, or copy the program to {}:\n{}",
                program.display(),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        fs::rename(&built, program).with_context(|| format!("move {name} to {}", program.display()))
    }
}

/// Waits for other processes that build the same program, and locks out further ones.
fn acquire_lock(path: &Path) -> Result<File> {
    let lock = File::create(path).with_context(|| format!("open {}", path.display()))?;
    flock(&lock, FlockOperation::LockExclusive).with_context(|| format!("lock {}", path.display()))?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_pins_a_version() {
        for tool in [PROMTOOL, HELM, VALE, COREDNS, LOCAL_PATH_PROVISIONER, METRICS_SERVER] {
            let version = tool.version().unwrap();
            assert!(version.starts_with('v') && !version.contains(char::is_whitespace), "{version}");
        }
    }
}
