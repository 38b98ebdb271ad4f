//! `deploy/rbac`: the ServiceAccount of the manager, and a role for each of its parts.
//!
//! - `deploy/rbac/*.yaml` are the permissions of every deployed manager: `kubectl apply -f deploy/rbac`.
//! - `deploy/rbac/namespaced` replaces those of the controllers with `--watch-namespaces`:
//!   `kubectl apply -n NAMESPACE -f deploy/rbac/namespaced/podset.yaml`.
//! - `deploy/rbac/optional` are the permissions of features that are disabled by default.

mod certificates;
mod cleanup;
mod controllers;
mod hook_secrets;
mod install_crds;
mod leader_election;
mod manager;
mod metrics;
mod page;
mod replication;

pub(crate) use ::manager::{ACCOUNT, NAMESPACE};
use anyhow::Result;
use operator_core::manifests::Grant;

use crate::generate::{Generated, document, sync_files, sync_folder};

/// Writes `deploy/rbac`, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let mut deployed = deployed()?;
    sync_files("docs/reference", &[page::file(&deployed)?], "gen-rbac", check)?;
    deployed.push(Generated::kustomization("gen-rbac", &deployed));
    sync_folder("deploy/rbac", &deployed, "gen-rbac", check)?;
    let mut namespaced = namespaced()?;
    namespaced.push(Generated::kustomization("gen-rbac", &namespaced));
    sync_folder("deploy/rbac/namespaced", &namespaced, "gen-rbac", check)?;
    let optional = [hook_secrets::file()?, install_crds::file()?, cleanup::command()?, replication::file()?];
    sync_folder("deploy/rbac/optional", &optional, "gen-rbac", check)
}

/// Returns the manifests of every deployed manager. Add the manifest of a new part here.
pub(crate) fn deployed() -> Result<Vec<Generated>> {
    let mut files = vec![
        manager::file()?,
        certificates::file()?,
        leader_election::file()?,
        metrics::file()?,
        cleanup::file()?,
    ];
    files.extend(controllers::files()?);
    Ok(files)
}

/// Returns the manifests for one namespace, for controllers that need no cluster-wide permissions.
pub(crate) fn namespaced() -> Result<Vec<Generated>> {
    controllers::namespaced()
}

/// Returns `<part>.yaml` with permissions in all namespaces and on cluster-scoped objects.
fn in_cluster(part: &str, grant: &Grant) -> Result<Generated> {
    let binding = grant.cluster_role_binding(NAMESPACE, ACCOUNT);
    manifest(part, &[document(&grant.cluster_role())?, document(&binding)?])
}

/// Returns `<part>.yaml` with permissions in one namespace, or in the one that the file is applied
/// to.
fn in_namespace(part: &str, grant: &Grant, namespace: Option<&str>) -> Result<Generated> {
    let binding = grant.role_binding(namespace, NAMESPACE, ACCOUNT);
    manifest(part, &[document(&grant.role(namespace))?, document(&binding)?])
}

fn manifest(name: &str, documents: &[serde_json::Value]) -> Result<Generated> {
    Generated::manifest(format!("{name}.yaml"), "gen-rbac", documents)
}
