//! `deploy/crds`: the custom resource definitions of all controllers.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use manager::CONTROLLERS;
use operator_core::admission::configuration::{self, Reach};

use crate::{
    generate::{Generated, document, settle},
    rbac::NAMESPACE,
};

/// The definitions of all controllers, for a manager that runs in the cluster.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    let reach = Reach::Service { namespace: NAMESPACE.to_owned() };
    CONTROLLERS.iter().flat_map(|controller| configuration::definitions(controller, &reach)).collect()
}

/// Writes `deploy/crds`, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let files: Result<Vec<_>> = definitions()
        .iter()
        .map(|crd| Generated::manifest(format!("{}.yaml", crd.name_any()), "gen-crds", &[document(crd)?]))
        .collect();
    settle("deploy/crds", &files?, "gen-crds", check)
}
