//! Why an upgrade failed.
//!
//! It is kept on the volume, so that a container that starts again does not try again: the operator may have given
//! up the upgrade, and would not expect upgraded data.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use postgres_model::report::shortened;
use serde::{Deserialize, Serialize};

use crate::durable;

const FILE: &str = "upgrade-failure.json";

/// Why the upgrade of the data in this Pod failed, if it did.
pub(crate) struct UpgradeFailure {
    path: PathBuf,
    pod_uid: String,
    failure: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    pod_uid: String,
    failure: String,
}

impl UpgradeFailure {
    /// Reads the failure in this Pod. One in an earlier Pod says nothing about the next attempt.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub(crate) fn read(volume: &Path, pod_uid: &str) -> Result<Self> {
        let path = volume.join(FILE);
        let content = match fs::read(&path) {
            Ok(json) => Some(serde_json::from_slice::<Content>(&json)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let content =
            content.transpose().with_context(|| format!("{} is damaged; delete it", path.display()))?;
        let failure = content.filter(|content| content.pod_uid == pod_uid).map(|content| content.failure);
        Ok(Self { path, pod_uid: pod_uid.to_owned(), failure })
    }

    pub(crate) fn get(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Notes a failure, for as long as the Pod exists.
    ///
    /// # Errors
    /// Returns an error if it cannot be written. It is noted until the container ends then.
    pub(crate) fn set(&mut self, failure: String) -> Result<()> {
        let content = Content { pod_uid: self.pod_uid.clone(), failure: shortened(failure) };
        let json = serde_json::to_vec(&content).context("cannot serialize the failure of an upgrade")?;
        self.failure = Some(content.failure);
        durable::write(&self.path, &json, 0o600)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_lasts_as_long_as_the_pod() {
        let volume = tempfile::tempdir().unwrap();
        let read = |pod: &str| UpgradeFailure::read(volume.path(), pod).unwrap();
        assert_eq!(read("p-1").get(), None);
        read("p-1").set("no space".to_owned()).unwrap();
        assert_eq!((read("p-1").get(), read("p-2").get()), (Some("no space"), None));
    }
}
