//! Labels and annotations of Pods and Services that existed before the Tenant defined them.
//!
//! Admission adds the metadata to objects that are created or updated. Existing objects are
//! therefore updated only after a change of the Tenant, and when a namespace joins the Tenant.

use std::sync::Arc;

use capsule::api::v1beta2::{AdditionalMetadata, Metadata, Tenant};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::ObjectMeta,
};
use operator_core::{
    ObjectKey,
    conditions::{READY, is_true},
    error::is_not_found,
    kind::{Kind, describe},
    write::WriteError,
};
use serde_json::Value;

use crate::namespace_metadata;

/// Applies labels and annotations to existing objects.
pub(crate) struct ExistingObjects {
    client: Client,
}

/// Returns the namespaces whose objects may lack the metadata: all after a change of the spec or a
/// failure, otherwise those that are not ready yet.
pub(crate) fn outdated_namespaces<'n>(
    tenant: &Tenant,
    namespaces: &'n [Arc<Namespace>],
) -> Vec<&'n Arc<Namespace>> {
    let status = tenant.status.clone().unwrap_or_default();
    let is_reconciled =
        status.observed_generation == tenant.metadata.generation && is_true(&status.conditions, READY);
    let is_ready = |namespace: &Namespace| {
        let mut spaces = status.spaces.iter();
        spaces.any(|space| space.uid == namespace.uid() && is_true(&space.conditions, READY))
    };
    namespaces.iter().filter(|namespace| !is_reconciled || !is_ready(namespace)).collect()
}

impl ExistingObjects {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Applies the metadata to the objects of kind `K` in a namespace.
    pub(crate) async fn apply<K: Kind>(
        &self,
        desired: &AdditionalMetadata,
        namespace: &str,
    ) -> Result<(), WriteError> {
        let api = K::api(self.client.clone(), Some(namespace));
        let failed = |action, name: &str| {
            let object = describe::<K>(&ObjectKey::namespaced(namespace, name));
            move |source| WriteError::Api { action, object, source }
        };
        let existing = api.list_metadata(&ListParams::default()).await.map_err(failed("list", "*"))?;
        for object in existing {
            let (name, Some(patch)) = (object.name_any(), patch(&object.metadata, desired)) else {
                continue;
            };
            match api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Err(error) if !is_not_found(&error) => return Err(failed("update", &name)(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Adds labels and annotations. They replace those with the same keys.
pub(crate) fn add(metadata: &mut ObjectMeta, added: &AdditionalMetadata) {
    let both = [(&mut metadata.labels, &added.labels), (&mut metadata.annotations, &added.annotations)];
    for (entries, added) in both {
        if !added.is_empty() {
            entries.get_or_insert_default().extend(added.clone());
        }
    }
}

/// Returns the merge patch that applies the metadata, or `None` if nothing changes or the object
/// is being deleted.
fn patch(present: &ObjectMeta, desired: &AdditionalMetadata) -> Option<Value> {
    if present.deletion_timestamp.is_some() {
        return None;
    }
    let AdditionalMetadata { labels, annotations } = desired.clone();
    namespace_metadata::patch(present, &Metadata { labels, annotations }, &Metadata::default())
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

    fn outdated(observed: i64, ready: &str) -> Vec<String> {
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
        outdated_namespaces(&tenant, &namespaces).into_iter().map(|namespace| namespace.name_any()).collect()
    }

    #[test]
    fn objects_are_updated_everywhere_after_a_change_and_otherwise_in_new_namespaces() {
        assert_eq!(outdated(1, "True"), ["oil-1", "oil-2", "oil-3"]);
        assert_eq!(outdated(2, "False"), ["oil-1", "oil-2", "oil-3"]);
        assert_eq!(outdated(2, "True"), ["oil-2", "oil-3"]);
    }

    #[test]
    fn patch_contains_only_changes() {
        let desired: AdditionalMetadata =
            serde_json::from_value(json!({ "labels": { "team": "oil", "app": "web" } })).unwrap();
        let present = |labels: Value| -> ObjectMeta {
            serde_json::from_value(json!({ "uid": "1", "labels": labels })).unwrap()
        };
        assert_eq!(
            patch(&present(json!({ "app": "web", "own": "x" })), &desired),
            Some(json!({ "metadata": { "uid": "1", "labels": { "team": "oil" } } }))
        );
        assert_eq!(patch(&present(json!({ "app": "web", "team": "oil" })), &desired), None);
    }
}
