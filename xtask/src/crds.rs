//! `deploy/crds`: the custom resource definitions of all controllers.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use manager::CONTROLLERS;
use operator_core::{
    Registration,
    admission::configuration::{self, Reach},
    labels,
};

use crate::{
    generate::{Generated, document, settle},
    rbac::NAMESPACE,
};

/// The definitions of all controllers, for a manager that runs in the cluster.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    CONTROLLERS.iter().flat_map(|controller| of_controller(controller, &deployed())).collect()
}

/// How the API server reaches a manager that runs in the cluster.
pub(crate) fn deployed() -> Reach {
    Reach::Service { namespace: NAMESPACE.to_owned() }
}

/// The definitions of a controller, of a manager that is reached so. Their labels tell them from those that somebody else
/// brought for the same kinds.
pub(crate) fn of_controller(controller: &Registration, reach: &Reach) -> Vec<CustomResourceDefinition> {
    let mut definitions = configuration::definitions(controller, reach);
    for definition in &mut definitions {
        let own = labels::recommended("ensemble", "ensemble", controller.name);
        labels::add(&mut definition.metadata.labels, own);
    }
    definitions
}

/// A file for each definition.
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
    settle("deploy/crds", &files, "gen-crds", check)
}
