//! Objects that exist only while a hook of the chart runs.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::core::ObjectMeta;
use operator_core::labels;
use serde_json::{Value, json};

use super::{manager, objects};
use crate::rbac::NAMESPACE;

/// Name of a Helm hook.
#[derive(Clone, Copy)]
pub(super) struct Hook(pub(super) &'static str);

impl Hook {
    /// Makes an object a hook that Helm creates first, such as permissions.
    pub(super) fn first(self, object: Value) -> Value {
        self.weighted(object, "0")
    }

    /// Makes an object a hook that Helm creates after the permissions.
    pub(super) fn second(self, object: Value) -> Value {
        self.weighted(object, "1")
    }

    /// Helm creates objects in the order of their weights. It deletes them when they have succeeded,
    /// so a failed Job or Pod stays for inspection.
    fn weighted(self, mut object: Value, weight: &str) -> Value {
        let annotations = json!({
            "helm.sh/hook": self.0,
            "helm.sh/hook-weight": weight,
            "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
            "helm.sh/hook-output-log-policy": "hook-failed",
        });
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("annotations".to_owned(), annotations);
        }
        object
    }
}

/// Returns the ServiceAccount of a hook.
pub(super) fn account(name: &str, component: &str) -> ServiceAccount {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        labels: Some(labels::recommended("ensemble", "ensemble", component)),
        ..ObjectMeta::default()
    };
    ServiceAccount { metadata, automount_service_account_token: Some(false), ..ServiceAccount::default() }
}

/// Returns the specification of a Pod that runs a subcommand of the manager.
pub(super) fn pod(account: &str, subcommand: &str) -> Value {
    json!({
        "serviceAccountName": account,
        "automountServiceAccountToken": true,
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "securityContext": objects::pod_security(),
        "containers": [{
            "name": subcommand,
            "image": super::IMAGE,
            "args": ["--controllers=*", subcommand],
            "env": manager::environment(),
            "resources": objects::resources(),
            "securityContext": objects::container_security(),
        }],
    })
}
