//! `optional/install-crds.yaml`: permissions for `--install-crds`.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use local_manager::crds::definitions;
use operator_core::{
    manifests::Grant,
    rbac::{CREATE, GET, LIST, PATCH, Rule, WATCH, rule},
};

use super::in_cluster;
use crate::generate::Generated;

const PART: &str = "install-crds";

pub(super) fn file() -> Result<Generated> {
    in_cluster(PART, &Grant::new(PART, rules()))
}

/// Returns rules to create definitions, and to update those of the controllers.
fn rules() -> Vec<Rule> {
    let names: Vec<_> = definitions().iter().map(ResourceExt::name_any).collect();
    vec![
        rule::<CustomResourceDefinition>(CREATE | LIST | WATCH),
        rule::<CustomResourceDefinition>(GET | PATCH).named(names.iter().map(String::as_str)),
    ]
}
