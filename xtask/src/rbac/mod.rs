//! `deploy/rbac`: the manager's ServiceAccount, and a role for each of its parts.
//!
//! - `deploy/rbac/*.yaml` is what every deployed manager has: `kubectl apply -f deploy/rbac`.
//! - `deploy/rbac/namespaced` is what the controllers need instead under `--watch-namespaces`:
//!   `kubectl apply -n NAMESPACE -f deploy/rbac/namespaced/podset.yaml`.
//! - `deploy/rbac/optional` is what it needs for what is off unless it is asked for.

mod certificates;
mod controllers;
mod hook_secrets;
mod install_crds;
mod leader_election;
mod manager;
mod metrics;
mod page;
mod removal;

pub(crate) use ::manager::{ACCOUNT, NAMESPACE};
use anyhow::Result;
use operator_core::rbac::Grant;

use crate::generate::{Generated, document, settle, settle_among};

/// Writes `deploy/rbac`, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let mut deployed = deployed()?;
    settle_among("docs/reference", &[page::file(&deployed)?], "gen-rbac", check)?;
    deployed.push(Generated::kustomization("gen-rbac", &deployed));
    settle("deploy/rbac", &deployed, "gen-rbac", check)?;
    let mut namespaced = namespaced()?;
    namespaced.push(Generated::kustomization("gen-rbac", &namespaced));
    settle("deploy/rbac/namespaced", &namespaced, "gen-rbac", check)?;
    let optional = [hook_secrets::file()?, install_crds::file()?, removal::command()?];
    settle("deploy/rbac/optional", &optional, "gen-rbac", check)
}

/// What every deployed manager has. A part of the process adds its file here.
pub(crate) fn deployed() -> Result<Vec<Generated>> {
    let mut files = vec![
        manager::file()?,
        certificates::file()?,
        leader_election::file()?,
        metrics::file()?,
        removal::file()?,
    ];
    files.extend(controllers::files()?);
    Ok(files)
}

/// The same for one namespace, of those controllers for which that is enough.
pub(crate) fn namespaced() -> Result<Vec<Generated>> {
    controllers::namespaced()
}

/// `<part>.yaml`: rights in all namespaces and on cluster-scoped objects.
fn in_cluster(part: &str, grant: &Grant) -> Result<Generated> {
    let binding = grant.cluster_role_binding(NAMESPACE, ACCOUNT);
    manifest(part, &[document(&grant.cluster_role())?, document(&binding)?])
}

/// `<part>.yaml`: rights in one namespace, the manager's own for example; without one, in that which the file is
/// applied to.
fn in_namespace(part: &str, grant: &Grant, within: Option<&str>) -> Result<Generated> {
    let binding = grant.role_binding(within, NAMESPACE, ACCOUNT);
    manifest(part, &[document(&grant.role(within))?, document(&binding)?])
}

fn manifest(name: &str, documents: &[serde_json::Value]) -> Result<Generated> {
    Generated::manifest(format!("{name}.yaml"), "gen-rbac", documents)
}
