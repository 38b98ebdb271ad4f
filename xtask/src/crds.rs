//! `deploy/crds`: the custom resource definitions of all controllers.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use manager::CONTROLLERS;

use crate::generate::{Generated, document, settle};

/// The definitions of all controllers.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    CONTROLLERS.iter().flat_map(|controller| (controller.crds)()).collect()
}

/// Writes `deploy/crds`, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let files: Result<Vec<_>> = definitions()
        .iter()
        .map(|crd| Generated::manifest(format!("{}.yaml", crd.name_any()), "gen-crds", &[document(crd)?]))
        .collect();
    settle("deploy/crds", &files?, "gen-crds", check)
}
