//! Services that were there before their Tenant wanted something on them. Whatever is made or changed later gets it by
//! admission, so these are looked at once only: after a change of the Tenant, and when a namespace joins it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::ObjectMeta,
};
use operator_core::{
    ObjectKey,
    conditions::{READY, is_true},
    error::is_not_found,
    kind::describe,
    write::WriteError,
};
use serde_json::Value;

use crate::{
    api::v1beta2::{AdditionalMetadata, Metadata, Tenant},
    namespace,
};

/// Writes on Services that are there.
pub(crate) struct Services {
    client: Client,
}

/// The namespaces whose Services are to be looked at: all, unless the present spec was carried out; then those that
/// are new.
pub(crate) fn due<'n>(tenant: &Tenant, namespaces: &'n [Arc<Namespace>]) -> Vec<&'n Arc<Namespace>> {
    let status = tenant.status.clone().unwrap_or_default();
    let was_carried_out =
        status.observed_generation == tenant.metadata.generation && is_true(&status.conditions, READY);
    let is_known = |namespace: &Namespace| {
        let mut spaces = status.spaces.iter();
        spaces.any(|space| space.uid == namespace.uid() && is_true(&space.conditions, READY))
    };
    namespaces.iter().filter(|namespace| !was_carried_out || !is_known(namespace)).collect()
}

impl Services {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Brings the Services of a namespace to what is wanted on them.
    pub(crate) async fn mark(&self, wanted: &AdditionalMetadata, namespace: &str) -> Result<(), WriteError> {
        let services = Api::<Service>::namespaced(self.client.clone(), namespace);
        let failed = |action, name: &str| {
            let object = describe::<Service>(&ObjectKey::namespaced(namespace, name));
            move |source| WriteError::Api { action, object, source }
        };
        let there = services.list_metadata(&ListParams::default()).await.map_err(failed("list", "*"))?;
        for service in there {
            let (name, Some(patch)) = (service.name_any(), patch(&service.metadata, wanted)) else {
                continue;
            };
            match services.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Err(error) if !is_not_found(&error) => return Err(failed("update", &name)(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The merge patch that brings a Service to what is wanted, or nothing if it is there already or on its way out.
fn patch(present: &ObjectMeta, wanted: &AdditionalMetadata) -> Option<Value> {
    if present.deletion_timestamp.is_some() {
        return None;
    }
    let AdditionalMetadata { labels, annotations } = wanted.clone();
    namespace::patch(present, &Metadata { labels, annotations }, &Metadata::default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn namespace(uid: &str) -> Arc<Namespace> {
        Arc::new(
            serde_json::from_value(json!({ "metadata": { "name": format!("oil-{uid}"), "uid": uid } }))
                .unwrap(),
        )
    }

    fn condition(status: &str) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": "x", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    }

    fn due_of(observed: i64, ready: &str) -> Vec<String> {
        let tenant: Tenant = serde_json::from_value(json!({
            "metadata": { "name": "oil", "generation": 2 }, "spec": {},
            "status": {
                "state": "Active", "size": 1, "observedGeneration": observed, "conditions": condition(ready),
                "spaces": [{ "name": "oil-1", "uid": "1", "conditions": condition("True") },
                    { "name": "oil-2", "uid": "2", "conditions": [] }],
            },
        }))
        .unwrap();
        let namespaces = ["1", "2", "3"].map(namespace);
        due(&tenant, &namespaces).into_iter().map(|namespace| namespace.name_any()).collect()
    }

    #[test]
    fn after_a_change_all_are_looked_at_and_then_only_those_that_are_new() {
        assert_eq!(due_of(1, "True"), ["oil-1", "oil-2", "oil-3"]);
        assert_eq!(due_of(2, "False"), ["oil-1", "oil-2", "oil-3"]);
        assert_eq!(due_of(2, "True"), ["oil-2", "oil-3"]);
    }

    #[test]
    fn only_what_differs_is_written() {
        let wanted: AdditionalMetadata =
            serde_json::from_value(json!({ "labels": { "team": "oil", "app": "web" } })).unwrap();
        let present = |labels: Value| -> ObjectMeta {
            serde_json::from_value(json!({ "uid": "1", "labels": labels })).unwrap()
        };
        assert_eq!(
            patch(&present(json!({ "app": "web", "own": "x" })), &wanted),
            Some(json!({ "metadata": { "uid": "1", "labels": { "team": "oil" } } }))
        );
        assert_eq!(patch(&present(json!({ "app": "web", "team": "oil" })), &wanted), None);
    }
}
