//! `<controller>.yaml`: permissions of each controller.

use anyhow::Result;
use manager::CONTROLLERS;
use operator_core::{manifests::Grant, rbac::Rule};

use super::{in_cluster, in_namespace};
use crate::generate::Generated;

pub(super) fn files() -> Result<Vec<Generated>> {
    CONTROLLERS.iter().map(|controller| in_cluster(controller.name, &Grant::of(controller))).collect()
}

/// Returns Roles for the controllers that need no cluster-wide permissions.
pub(super) fn namespaced() -> Result<Vec<Generated>> {
    let grants = CONTROLLERS.iter().map(|controller| (controller.name, Grant::of(controller)));
    let namespaced = grants.filter(|(_, grant)| grant.rules().iter().all(Rule::is_namespaced));
    namespaced.map(|(name, grant)| in_namespace(name, &grant, None)).collect()
}
