//! A Go program that is built once.

use std::{
    env::consts::{ARCH, OS},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::files::{cache, lock, with_suffix};

/// A program and the Go module that pins it.
#[derive(Debug)]
pub struct Tool {
    /// Name of the program, and of the directory of the Go module below `modules`.
    pub(crate) name: &'static str,
    pub(crate) go_mod: &'static str,
    pub(crate) module: &'static str,
    pub(crate) package: &'static str,
    pub(crate) tags: &'static str,
    /// Whether the program contains C code. Others are static.
    pub(crate) cgo: bool,
}

impl Tool {
    /// Creates a static program without build tags.
    pub(crate) const fn new(name: &'static str, go_mod: &'static str) -> Self {
        Self { name, go_mod, module: "", package: "", tags: "", cgo: false }
    }

    /// Returns the name of the program.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the name, the version, and the platform of the program.
    ///
    /// # Errors
    /// Returns an error if the Go module does not pin a version.
    pub fn id(&self) -> Result<String> {
        Ok(format!("{}-{}-{OS}-{ARCH}", self.name, self.version()?))
    }

    /// Returns the path of the program. Builds it first, which takes minutes, if it is not in
    /// `$XDG_CACHE_HOME/ensemble` (or `~/.cache/ensemble`).
    ///
    /// # Errors
    /// Returns an error if the program is missing and the build fails, for example without Go,
    /// network, or disk space.
    pub fn locate(&self) -> Result<PathBuf> {
        let home = self.cache()?.join(self.id()?);
        let program = home.join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
        let _lock = lock(&home.join("lock"), || {})?;
        if !program.is_file() {
            self.build(&program)?;
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
        let lines = self.go_mod.lines().map(str::trim);
        let lines = lines.map(|line| line.strip_prefix("require ").unwrap_or(line));
        let mut required = lines.filter_map(|line| line.strip_prefix(self.module));
        required
            .find_map(|rest| rest.strip_prefix(' ')?.split(' ').next())
            .with_context(|| format!("go.mod does not pin {}", self.module))
    }

    /// Builds the program under another name and renames it, so that it appears complete or not at
    /// all. Go's own build cache is used: most of these programs share the libraries of Kubernetes.
    fn build(&self, program: &Path) -> Result<()> {
        let name = self.name;
        eprintln!("building {name}; this takes minutes and happens once");
        let built = with_suffix(program, "building");
        let output = Command::new("go")
            .arg("build")
            .arg("-C")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("modules").join(name))
            .args(["-mod=readonly", "-trimpath", "-ldflags=-s -w", "-tags", self.tags, "-o"])
            .arg(&built)
            .arg(self.package)
            .envs([("GOTOOLCHAIN", "local"), ("GOFLAGS", "-buildvcs=false"), ("GOWORK", "off")])
            .env("CGO_ENABLED", if self.cgo { "1" } else { "0" })
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
