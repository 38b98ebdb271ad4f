//! The Go modules of the releases of Kubernetes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::private_dir::private_dir;
use crate::release::Release;

/// Writes the Go module of a release into a directory below `work`, and returns it.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub(crate) fn write(release: Release, pinned_go_mod: &str, work: &Path) -> Result<PathBuf> {
    let dir = work.join("module");
    private_dir(&dir)?;
    let path = dir.join("go.mod");
    std::fs::write(&path, go_mod(release, pinned_go_mod))
        .with_context(|| format!("write {}", path.display()))?;
    Ok(dir)
}

/// Returns the `go.mod` of a release. Like that of the pinned release, it replaces each staging
/// module by its tag. The Go tool adds all other requirements, in the versions that Kubernetes'
/// own `go.mod` has. It ignores staging modules that the release lacks.
pub(crate) fn go_mod(release: Release, pinned_go_mod: &str) -> String {
    let (go, version) = (release.go(), release.version());
    let tag = format!("v0.{}.{}", release.minor(), release.patch());
    let replacements = staging_modules(pinned_go_mod).map(|module| format!("\t{module} => {module} {tag}\n"));
    format!(
        "module ensemble/kubernetes\n\ngo {go}\n\nrequire k8s.io/kubernetes {version}\n\nreplace (\n{})\n",
        replacements.collect::<String>()
    )
}

fn staging_modules(go_mod: &str) -> impl Iterator<Item = &str> {
    go_mod.lines().filter_map(|line| Some(line.trim().split_once(" => ")?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PINNED: &str = "module m\n\nrequire k8s.io/api v0.36.3\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.36.3\n\tk8s.io/client-go => k8s.io/client-go v0.36.3\n)\n";

    #[test]
    fn module_replaces_staging_modules_by_their_tags() {
        let expected = "module ensemble/kubernetes\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v1.33.13\n\nreplace (\n\
            \tk8s.io/api => k8s.io/api v0.33.13\n\tk8s.io/client-go => k8s.io/client-go v0.33.13\n)\n";
        assert_eq!(go_mod("1.33".parse().unwrap(), PINNED), expected);
    }
}
