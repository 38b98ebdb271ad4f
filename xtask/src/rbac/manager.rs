//! `00-manager.yaml`: the namespace and the ServiceAccount of the manager, and permission to read
//! the namespace.
//!
//! kubectl applies the files of a folder in order of their names, and other files need the
//! namespace.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::core::ObjectMeta;
use operator_core::{labels, manifests::Grant};
use operator_runtime::cleanup::namespace_rules;

use super::{ACCOUNT, NAMESPACE, manifest};
use crate::generate::{Generated, document};

/// Part with the permissions of the process itself.
const PART: &str = "manager";

pub(super) fn file() -> Result<Generated> {
    let grant = Grant::new(PART, namespace_rules(NAMESPACE));
    let binding = grant.role_binding(Some(NAMESPACE), NAMESPACE, ACCOUNT);
    let role = grant.role(Some(NAMESPACE));
    let documents = [document(&namespace())?, document(&account())?, document(&role)?, document(&binding)?];
    manifest("00-manager", &documents)
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
    // The Pods of the manager enable the token explicitly. Other Pods with this account get none.
    ServiceAccount { metadata, automount_service_account_token: Some(false), ..ServiceAccount::default() }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels::recommended("ensemble", "ensemble", "manager")),
        ..ObjectMeta::default()
    }
}
