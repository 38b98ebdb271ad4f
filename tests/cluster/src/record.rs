//! Description of a running cluster: `cluster.json` in its directory.

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

/// A ready cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the cluster.
    pub name: String,
    /// Directory of the cluster.
    pub dir: PathBuf,
    /// Process ID of the owner.
    pub owner: u32,
    /// Process ID of each component at the time the cluster became ready.
    pub pids: BTreeMap<Component, u32>,
    /// Ports of the components.
    pub ports: Ports,
    /// Pinned versions.
    pub versions: Versions,
    /// Number of simulated nodes.
    pub nodes: usize,
    /// Number of real nodes.
    #[serde(default)]
    pub real_nodes: usize,
    /// Path of the administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Directory of the programs, including kubectl.
    pub binaries: PathBuf,
    /// Path of the API server's audit log.
    pub audit_log: PathBuf,
    /// Milliseconds from the first process to a usable cluster.
    pub start_milliseconds: u64,
}

impl Record {
    /// Writes the record, so that other processes can attach.
    pub(crate) fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("serialize the record of the cluster")?;
        write_private(&self.dir.join(FILE), &text)
    }

    /// Reads the record in `dir`. Returns `None` if the cluster does not exist or is not ready.
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

    /// Returns the path of kubectl.
    pub fn kubectl(&self) -> PathBuf {
        self.binaries.join("kubectl")
    }
}
