//! `00-manager.yaml`: where the manager lives and as whom it runs. kubectl applies a folder's files by name, and some of
//! the others are about objects in this namespace.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::core::ObjectMeta;
use operator_core::labels;

use super::{ACCOUNT, NAMESPACE, manifest};
use crate::generate::{Generated, document};

pub(super) fn file() -> Result<Generated> {
    manifest("00-manager", &[document(&namespace())?, document(&account())?])
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
    // The manager's pods ask for a token themselves; whatever else runs as this account gets none unasked.
    ServiceAccount { metadata, automount_service_account_token: Some(false), ..ServiceAccount::default() }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels::recommended("ensemble", "ensemble", "manager")),
        ..ObjectMeta::default()
    }
}
