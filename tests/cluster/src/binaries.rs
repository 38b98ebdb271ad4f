//! Locates the programs of the control plane.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use go_tools::cache;

use crate::Progress;
use crate::go_build::Builder;
use crate::release::Release;
use crate::versions::cache_key;

/// Environment variable with the directory of the control plane's programs, as in envtest.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// Programs of real nodes. A directory in `KUBEBUILDER_ASSETS` may lack them.
const NODE_NAMES: [&str; 2] = ["kubelet", "kube-proxy"];

/// Programs of a cluster. kubectl is not started; users and tests run it.
pub(crate) const NAMES: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"];

/// Directory that contains every program of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    dir: PathBuf,
    release: Release,
}

impl Binaries {
    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of one program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn release(&self) -> Release {
        self.release
    }

    /// Checks that the directory also contains the programs of real nodes.
    ///
    /// # Errors
    /// Returns an error that lists the missing programs.
    pub(crate) fn check_nodes(&self) -> Result<()> {
        let missing: Vec<_> = NODE_NAMES.into_iter().filter(|name| !self.path(name).is_file()).collect();
        if !missing.is_empty() {
            bail!(
                "real nodes need {} in {}; add them, or unset {ASSETS_VARIABLE} to build them",
                missing.join(" and "),
                self.dir.display()
            );
        }
        Ok(())
    }

    /// Returns the programs in `dir`.
    ///
    /// # Errors
    /// Returns an error that lists the missing programs.
    fn complete(dir: &Path, release: Release) -> Result<Self> {
        let missing: Vec<_> = NAMES.into_iter().filter(|name| !dir.join(name).is_file()).collect();
        if !missing.is_empty() {
            bail!("{} does not contain {}", dir.display(), missing.join(", "));
        }
        Ok(Self { dir: dir.to_owned(), release })
    }
}

/// Searches `$KUBEBUILDER_ASSETS`, then the project's cache. Otherwise builds the programs once
/// from their pinned Go modules.
#[derive(Clone, Debug)]
pub struct Locator {
    /// Directory of the programs. If set, it must contain all of them.
    pub assets: Option<PathBuf>,
    /// Directory that stores the built programs.
    pub cache: PathBuf,
    /// Go tool: a path, or a name on `PATH`.
    pub go: OsString,
    /// Release of Kubernetes. With `assets`, the one that the directory contains.
    pub release: Release,
}

impl Locator {
    /// Reads `ENSEMBLE_KUBERNETES` and the variables of [`Locator::of`].
    pub fn from_env() -> Result<Self> {
        Self::of(Release::from_env()?)
    }

    /// Selects a release of Kubernetes. Reads `KUBEBUILDER_ASSETS`, `XDG_CACHE_HOME`, and `HOME`. Uses
    /// the `go` on `PATH`.
    pub fn of(release: Release) -> Result<Self> {
        let cache = cache()
            .with_context(|| format!("cannot choose a directory for the control plane's programs; set HOME, XDG_CACHE_HOME, or {ASSETS_VARIABLE}"));
        let assets = std::env::var_os(ASSETS_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The cache is not used if KUBEBUILDER_ASSETS is set.
        let cache = if assets.is_some() { cache.unwrap_or_default() } else { cache? };
        Ok(Self { assets, cache, go: "go".into(), release })
    }

    /// Returns the programs. Builds them first if they do not exist, which takes minutes and is
    /// reported to `progress`.
    ///
    /// # Errors
    /// Returns an error if the directory in `KUBEBUILDER_ASSETS` is incomplete, or if the build
    /// fails.
    pub fn locate(&self, progress: &Progress) -> Result<Binaries> {
        if let Some(assets) = &self.assets {
            return Binaries::complete(assets, self.release).with_context(|| {
                format!(
                    "{ASSETS_VARIABLE} must contain {}; add the missing programs, or unset the variable to build them",
                    NAMES.join(", ")
                )
            });
        }
        let home = self.cache.join(cache_key(self.release)?);
        let bin = home.join("bin");
        if let Ok(found) = Binaries::complete(&bin, self.release) {
            return Ok(found);
        }
        Builder::new(self.go.clone(), self.release).build(&home, progress)?;
        Binaries::complete(&bin, self.release)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn locator(assets: Option<&Path>, cache: &Path) -> Locator {
        Locator {
            assets: assets.map(Path::to_owned),
            cache: cache.to_owned(),
            go: "/nonexistent/go".into(),
            release: Release::default(),
        }
    }

    fn fill(dir: &Path, names: &[&str]) {
        fs::create_dir_all(dir).unwrap();
        for name in names {
            fs::write(dir.join(name), "").unwrap();
        }
    }

    #[test]
    fn uses_complete_assets_directory() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), &NAMES);
        let found = locator(Some(dir.path()), Path::new("/nonexistent")).locate(&Progress::silent()).unwrap();
        assert_eq!(found.dir(), dir.path());
    }

    #[test]
    fn rejects_incomplete_assets_directory() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), &["etcd", "kube-apiserver", "kubectl"]);
        let error =
            locator(Some(dir.path()), Path::new("/nonexistent")).locate(&Progress::silent()).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("does not contain kube-controller-manager, kube-scheduler, kwok"), "{text}");
        assert!(text.contains("KUBEBUILDER_ASSETS"), "{text}");
    }

    #[test]
    fn uses_cached_programs_without_go() {
        let cache = tempfile::tempdir().unwrap();
        let bin = cache.path().join(cache_key(Release::default()).unwrap()).join("bin");
        fill(&bin, &NAMES);
        assert_eq!(locator(None, cache.path()).locate(&Progress::silent()).unwrap().dir(), bin);
    }
}
