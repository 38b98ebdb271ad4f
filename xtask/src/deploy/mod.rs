//! `deploy/manager`, `deploy/proxy`, `deploy/proxy-options`, `deploy/install.yaml`, and the files of the Helm chart.
//!
//! The manifests of the manager are generated, because its ports are the defaults of its flags, and
//! the tag of its image is the version.

mod chart;
mod check;
mod cleanup;
mod hook;
mod install;
mod manager;
mod objects;
mod proxy;

use anyhow::Result;

use crate::generate::{Generated, sync_files, sync_folder};

const COMMAND: &str = "gen-deploy";
/// Image in the manifests. It is in no registry: users replace it with their own.
pub(crate) const IMAGE: &str = concat!("ensemble:", env!("CARGO_PKG_VERSION"));

/// Writes all files, or checks them.
pub(crate) fn generate(check: bool) -> Result<()> {
    let mut manager = manager::files()?;
    sync_files("deploy", &[install::file(&manager)?], COMMAND, check)?;
    for (folder, files) in chart::folders(&manager)? {
        sync_folder(&format!("deploy/helm/ensemble/files/{folder}"), &files, COMMAND, check)?;
    }
    sync_files("deploy/helm/ensemble", &[chart::chart()], COMMAND, check)?;
    let mut proxy = proxy::files()?;
    proxy.push(Generated::kustomization(COMMAND, &proxy));
    sync_folder("deploy/proxy", &proxy, COMMAND, check)?;
    for option in proxy::options()? {
        let folder = format!("deploy/proxy-options/{}", option.folder);
        sync_folder(&folder, &proxy::component(option), COMMAND, check)?;
    }
    manager.push(Generated::kustomization(COMMAND, &manager));
    sync_folder("deploy/manager", &manager, COMMAND, check)
}
