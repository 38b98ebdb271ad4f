//! `check-crds`: what is to be released next takes every object and every client of the last release.
//!
//! `deploy/released/VERSION` holds the definitions as they were released; the newest are what `deploy/crds` is held
//! against. For a release, `deploy/crds` is copied there.

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
use semver::Version;
use serde_json::Value;

use crate::workspace;

const RELEASED: &str = "deploy/released";
const PRESENT: &str = "deploy/crds";

/// Fails if something of the last release would no longer be taken, with all that would not.
pub(crate) fn check() -> Result<()> {
    let (version, folder) = newest(&workspace().join(RELEASED))?;
    let (released, present) = (read(&folder)?, read(&workspace().join(PRESENT))?);
    let breaks: Vec<_> =
        released.iter().flat_map(|(name, old)| definition::breaks(name, old, present.get(name))).collect();
    if breaks.is_empty() {
        println!("{PRESENT} takes all that the {} definitions of {version} take", released.len());
        return Ok(());
    }
    bail!(
        "{PRESENT} does not take all that {version} takes:\n{}\nGive the kind a new version that has the change, and serve \
         the old one as it was",
        breaks.join("\n")
    )
}

/// The folder of the newest release.
fn newest(released: &Path) -> Result<(Version, PathBuf)> {
    let mut versions = BTreeMap::new();
    for entry in fs::read_dir(released).with_context(|| format!("cannot read {}", released.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let version = name.parse::<Version>().with_context(|| {
            format!("{} is named after no version such as 1.2.3; rename it", entry.path().display())
        })?;
        versions.insert(version, entry.path());
    }
    versions.pop_last().with_context(|| {
        format!("{} holds no release; copy deploy/crds to a folder in it", released.display())
    })
}

/// The definitions of a folder, by name.
fn read(folder: &Path) -> Result<BTreeMap<String, Value>> {
    let mut definitions = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for document in text.split("---\n").skip(1) {
            let definition: Value =
                serde_saphyr::from_str(document).with_context(|| format!("{} is no YAML", path.display()))?;
            let name = definition.pointer("/metadata/name").and_then(Value::as_str);
            let name = name.with_context(|| format!("{} holds an object without a name", path.display()))?;
            definitions.insert(name.to_owned(), definition);
        }
    }
    Ok(definitions)
}
