//! What is installed: `deploy/manager`, which runs the manager; `deploy/install.yaml`, all manifests in one file; and the
//! files of the Helm chart.
//!
//! The manager's own manifests are made from the code because its ports are the defaults of its flags, and its
//! image's name is the version's.

mod chart;
mod install;
mod manager;
mod ports;
mod release;

use anyhow::Result;
pub(crate) use ports::Ports;

use crate::generate::{Generated, settle, settle_among};

const COMMAND: &str = "gen-deploy";
/// The image that the manifests name. It is in no registry: whoever installs says where theirs is.
pub(crate) const IMAGE: &str = concat!("ensemble:", env!("CARGO_PKG_VERSION"));

/// Writes all of it, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let mut manager = manager::files()?;
    settle_among("deploy", &[install::file(&manager)?], COMMAND, check)?;
    for (folder, files) in chart::folders(&manager)? {
        settle(&format!("deploy/helm/ensemble/files/{folder}"), &files, COMMAND, check)?;
    }
    settle_among("deploy/helm/ensemble", &[chart::head()], COMMAND, check)?;
    manager.push(Generated::kustomization(COMMAND, &manager));
    settle("deploy/manager", &manager, COMMAND, check)
}
