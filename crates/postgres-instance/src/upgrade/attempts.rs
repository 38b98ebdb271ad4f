//! Attempts to upgrade the data, and why they failed.
//!
//! They are kept on the volume, so that a container that starts again does not try again: the operator may have given
//! up the upgrade, and would not expect upgraded data.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use postgres_model::report::shortened;
use serde::{Deserialize, Serialize};

use crate::durable;

const FILE: &str = "upgrade-attempts.json";
/// Most attempts in one Pod. All but the last one ended with the container.
const MOST_ATTEMPTS: u32 = 5;

/// Attempts to upgrade the data in this Pod.
pub(crate) struct UpgradeAttempts {
    path: PathBuf,
    content: Content,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    pod_uid: String,
    /// Number of attempts that have begun.
    begun: u32,
    failure: Option<String>,
}

impl UpgradeAttempts {
    /// Reads the attempts in this Pod. Those in an earlier Pod say nothing about the next one.
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
        let content = content.filter(|content| content.pod_uid == pod_uid);
        let new = || Content { pod_uid: pod_uid.to_owned(), begun: 0, failure: None };
        Ok(Self { path, content: content.unwrap_or_else(new) })
    }

    /// Returns why the data could not be upgraded.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.content.failure.as_deref()
    }

    /// Notes that an attempt begins. Too many attempts are a failure: the container ends during each.
    ///
    /// # Errors
    /// Returns an error if that cannot be written, or is a failure.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.content.begun >= MOST_ATTEMPTS {
            let failure =
                format!("the container has ended during {MOST_ATTEMPTS} attempts; it may need more memory");
            self.fail(failure.clone())?;
            anyhow::bail!(failure);
        }
        self.content.begun = self.content.begun.saturating_add(1);
        self.store()
    }

    /// Notes a failure, for as long as the Pod exists.
    ///
    /// # Errors
    /// Returns an error if it cannot be written. It is noted until the container ends then.
    pub(crate) fn fail(&mut self, failure: String) -> Result<()> {
        self.content.failure = Some(shortened(failure));
        self.store()
    }

    fn store(&self) -> Result<()> {
        let json =
            serde_json::to_vec(&self.content).context("cannot serialize the attempts of an upgrade")?;
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
        let read = |pod: &str| UpgradeAttempts::read(volume.path(), pod).unwrap();
        assert_eq!(read("p-1").failure(), None);
        read("p-1").fail("no space".to_owned()).unwrap();
        assert_eq!((read("p-1").failure(), read("p-2").failure()), (Some("no space"), None));
    }

    #[test]
    fn container_that_always_ends_has_failed() {
        let volume = tempfile::tempdir().unwrap();
        let read = || UpgradeAttempts::read(volume.path(), "p-1").unwrap();
        for _ in 0..MOST_ATTEMPTS {
            read().begin().unwrap();
            assert_eq!(read().failure(), None);
        }
        assert!(read().begin().is_err());
        assert!(read().failure().unwrap().contains("more memory"));
    }
}
