//! `deploy/rbac`: the manager's ServiceAccount, and a role for each controller.

use anyhow::Result;
use k8s_openapi::{
    api::{
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{ResourceExt, core::ObjectMeta};
use manager::CONTROLLERS;
use operator_core::{
    labels,
    rbac::{CREATE, GET, LIST, PATCH, Rule, WATCH, cluster_role, cluster_role_binding, rule},
};
use serde_json::Value;

use crate::{
    crds,
    generate::{Generated, document, settle},
};

/// The namespace that the manager runs in.
pub(crate) const NAMESPACE: &str = "ensemble-system";
/// The ServiceAccount that the manager runs as.
pub(crate) const ACCOUNT: &str = "ensemble-manager";
/// The role that `--install-crds` needs; not bound unless it is wanted.
const INSTALL_CRDS: &str = "ensemble-install-crds";

/// Writes `deploy/rbac`, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let mut files = vec![
        manifest("manager", &[document(&namespace())?, document(&account())?])?,
        manifest("install-crds", &install_crds()?)?,
    ];
    for controller in CONTROLLERS {
        let role = document(&cluster_role(controller))?;
        let binding = document(&cluster_role_binding(controller, NAMESPACE, ACCOUNT))?;
        files.push(manifest(controller.name, &[role, binding])?);
    }
    settle("deploy/rbac", &files, "gen-rbac", check)
}

fn manifest(name: &str, documents: &[Value]) -> Result<Generated> {
    Generated::manifest(format!("{name}.yaml"), "gen-rbac", documents)
}

fn namespace() -> Namespace {
    let mut metadata = named(NAMESPACE);
    let enforce = ("pod-security.kubernetes.io/enforce".to_owned(), "restricted".to_owned());
    metadata.labels.get_or_insert_default().extend([enforce]);
    Namespace { metadata, ..Namespace::default() }
}

fn account() -> ServiceAccount {
    let mut metadata = named(ACCOUNT);
    metadata.namespace = Some(NAMESPACE.to_owned());
    ServiceAccount { metadata, ..ServiceAccount::default() }
}

/// What `--install-crds` may do: create definitions, and change those that are ours.
fn install_crds() -> Result<[Value; 2]> {
    let names: Vec<_> = crds::definitions().iter().map(ResourceExt::name_any).collect();
    let rules = [
        rule::<CustomResourceDefinition>(CREATE | LIST | WATCH),
        rule::<CustomResourceDefinition>(GET | PATCH).named(names.iter().map(String::as_str)),
    ];
    let role = ClusterRole {
        metadata: named(INSTALL_CRDS),
        rules: Some(rules.into_iter().map(Rule::into_policy).collect()),
        aggregation_rule: None,
    };
    let binding = ClusterRoleBinding {
        metadata: named(INSTALL_CRDS),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: INSTALL_CRDS.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: ACCOUNT.to_owned(),
            namespace: Some(NAMESPACE.to_owned()),
            api_group: None,
        }]),
    };
    Ok([document(&role)?, document(&binding)?])
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels::recommended("ensemble", "ensemble", "manager")),
        ..ObjectMeta::default()
    }
}
