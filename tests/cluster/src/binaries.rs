//! Where the programs of the control plane come from.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::Progress;
use crate::go_build::Builder;
use crate::program::cache;
use crate::versions::Versions;

/// The directory that the field's tools look into for a control plane.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// What a cluster needs. kubectl is not started but handed to people and tests.
pub(crate) const NAMES: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"];

/// A directory in which every program of the control plane was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    dir: PathBuf,
}

impl Binaries {
    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of one program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// # Errors
    /// Names what is missing.
    fn complete(dir: &Path) -> Result<Self> {
        let missing: Vec<_> = NAMES.into_iter().filter(|name| !dir.join(name).is_file()).collect();
        if !missing.is_empty() {
            bail!("{} lacks {}", dir.display(), missing.join(", "));
        }
        Ok(Self { dir: dir.to_owned() })
    }
}

/// Looks in `$KUBEBUILDER_ASSETS`, then in the project's cache, and otherwise builds the programs once from their pinned Go modules.
#[derive(Clone, Debug)]
pub struct Locator {
    /// A directory that must hold every program when it is given.
    pub assets: Option<PathBuf>,
    /// The directory below which built programs are kept.
    pub cache: PathBuf,
    /// The Go tool, a name to be found on `PATH` or a path.
    pub go: OsString,
}

impl Locator {
    /// As the environment says: `KUBEBUILDER_ASSETS`, `XDG_CACHE_HOME` or `HOME`, and `go` on `PATH`.
    pub fn from_env() -> Result<Self> {
        let cache = cache()
            .with_context(|| format!("neither HOME nor XDG_CACHE_HOME nor {ASSETS_VARIABLE} is set, so there is no place for the control plane's programs"));
        let assets = std::env::var_os(ASSETS_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        // With the programs given, the cache is never looked at.
        let cache = if assets.is_some() { cache.unwrap_or_default() } else { cache? };
        Ok(Self { assets, cache, go: "go".into() })
    }

    /// The programs; built first when they are nowhere, which takes minutes and is reported to `progress`.
    ///
    /// # Errors
    /// When the directory of `KUBEBUILDER_ASSETS` is incomplete, or when building fails; the error says what to do about it.
    pub fn locate(&self, progress: &Progress) -> Result<Binaries> {
        if let Some(assets) = &self.assets {
            return Binaries::complete(assets).with_context(|| {
                format!(
                    "{ASSETS_VARIABLE} must hold all of {}; complete it, or unset it to build them",
                    NAMES.join(", ")
                )
            });
        }
        let versions = Versions::pinned()?;
        let home = self.cache.join(versions.key());
        let bin = home.join("bin");
        if let Ok(found) = Binaries::complete(&bin) {
            return Ok(found);
        }
        Builder::new(self.go.clone(), versions).build(&home, progress)?;
        Binaries::complete(&bin)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn locator(assets: Option<&Path>, cache: &Path) -> Locator {
        Locator { assets: assets.map(Path::to_owned), cache: cache.to_owned(), go: "/nonexistent/go".into() }
    }

    fn fill(dir: &Path, names: &[&str]) {
        fs::create_dir_all(dir).unwrap();
        for name in names {
            fs::write(dir.join(name), "").unwrap();
        }
    }

    #[test]
    fn a_complete_assets_directory_is_used() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), &NAMES);
        let found = locator(Some(dir.path()), Path::new("/nonexistent")).locate(&Progress::silent()).unwrap();
        assert_eq!(found.dir(), dir.path());
    }

    #[test]
    fn an_incomplete_assets_directory_is_an_error_that_names_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), &["etcd", "kube-apiserver", "kubectl"]);
        let error =
            locator(Some(dir.path()), Path::new("/nonexistent")).locate(&Progress::silent()).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("lacks kube-controller-manager, kube-scheduler, kwok"), "{text}");
        assert!(text.contains("KUBEBUILDER_ASSETS"), "{text}");
    }

    #[test]
    fn the_cache_of_these_versions_is_used_without_go() {
        let cache = tempfile::tempdir().unwrap();
        let bin = cache.path().join(Versions::pinned().unwrap().key()).join("bin");
        fill(&bin, &NAMES);
        assert_eq!(locator(None, cache.path()).locate(&Progress::silent()).unwrap().dir(), bin);
    }
}
