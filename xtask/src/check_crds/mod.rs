//! `cargo xtask check-crds`: checks that the CustomResourceDefinitions are compatible with the last
//! release.
//!
//! `deploy/released/VERSION` contains the definitions of a release. The newest version is compared
//! with `deploy/crds`. At a release, copy `deploy/crds` there.

mod definition;
mod limits;
mod schema;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use cluster::program::workspace;
use semver::Version;
use serde_json::Value;

const RELEASED: &str = "deploy/released";
const CURRENT: &str = "deploy/crds";

/// Compares the definitions with those of the last release.
///
/// # Errors
/// Returns an error that lists the incompatible changes, or if the definitions cannot be read.
pub(crate) fn check() -> Result<()> {
    let (version, folder) = newest(&workspace().join(RELEASED))?;
    let (released, current) = (read(&folder)?, read(&workspace().join(CURRENT))?);
    let changes: Vec<_> = released
        .iter()
        .flat_map(|(name, old)| definition::breaking_changes(name, old, current.get(name)))
        .collect();
    if changes.is_empty() {
        println!("{CURRENT} is compatible with the {} definitions of {version}", released.len());
        return Ok(());
    }
    bail!(
        "{CURRENT} is not compatible with {version}:\n{}\n\
         Add a version with the change to the kind, and keep the old version",
        changes.join("\n")
    )
}

/// Returns the version and the folder of the newest release.
fn newest(released: &Path) -> Result<(Version, PathBuf)> {
    let mut versions = BTreeMap::new();
    for entry in fs::read_dir(released).with_context(|| format!("cannot read {}", released.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let version = name.parse::<Version>().with_context(|| {
            format!("the name of {} is not a version such as 1.2.3; rename it", entry.path().display())
        })?;
        versions.insert(version, entry.path());
    }
    versions.pop_last().with_context(|| {
        format!("{} contains no release; copy deploy/crds to a folder in it", released.display())
    })
}

/// Reads the definitions of a folder by name.
fn read(folder: &Path) -> Result<BTreeMap<String, Value>> {
    let mut definitions = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for document in text.split("---\n").skip(1) {
            let definition: Value = serde_saphyr::from_str(document)
                .with_context(|| format!("cannot parse {} as YAML", path.display()))?;
            let name = definition.pointer("/metadata/name").and_then(Value::as_str);
            let name = name.with_context(|| format!("an object in {} has no name", path.display()))?;
            definitions.insert(name.to_owned(), definition);
        }
    }
    Ok(definitions)
}
