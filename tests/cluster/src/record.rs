//! What a running cluster tells others about itself: `cluster.json` in its directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::components::Component;
use crate::pki::write_private;
use crate::ports::Ports;
use crate::versions::Versions;

const FILE: &str = "cluster.json";

/// A cluster that is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// The process that owns it.
    pub owner: u32,
    /// The process of each part when the cluster became ready.
    pub pids: BTreeMap<Component, u32>,
    /// Where the parts listen.
    pub ports: Ports,
    /// The pinned versions.
    pub versions: Versions,
    /// How many nodes are simulated.
    pub nodes: usize,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The programs' directory; kubectl is among them.
    pub binaries: PathBuf,
    /// The API server's audit log.
    pub audit_log: PathBuf,
    /// From the first process to a usable cluster.
    pub start_milliseconds: u64,
}

impl Record {
    /// Makes the cluster visible to others.
    pub(crate) fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("write the cluster's record as JSON")?;
        write_private(&self.dir.join(FILE), &text)
    }

    /// `None` while the cluster in `dir` is not ready, or when there is none.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).with_context(|| format!("read {}", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
        }
    }

    /// The path of kubectl.
    pub fn kubectl(&self) -> PathBuf {
        self.binaries.join("kubectl")
    }
}
