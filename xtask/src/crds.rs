//! `deploy/crds`: the CustomResourceDefinitions of all controllers.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use local_manager::crds::definitions;

use crate::generate::{Generated, document, sync_folder};

/// Returns a file for each definition.
pub(crate) fn files() -> Result<Vec<Generated>> {
    let file = |crd: &CustomResourceDefinition| {
        Generated::manifest(format!("{}.yaml", crd.name_any()), "gen-crds", &[document(crd)?])
    };
    definitions().iter().map(file).collect()
}

/// Writes `deploy/crds`, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let mut files = files()?;
    files.push(Generated::kustomization("gen-crds", &files));
    sync_folder("deploy/crds", &files, "gen-crds", check)
}
