//! The label of PersistentVolumes: the Tenant whose claim binds the volume.
//!
//! The label stays when the claim is deleted, so that no other Tenant can claim the data.

use std::sync::Arc;

use capsule::{
    api::{names::TENANT_LABEL, v1beta2::Tenant},
    membership::referenced_tenants,
};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use operator_core::{
    ControllerBuilder, ObjectKey,
    error::is_not_found,
    informer::{Change, Index, Selection},
    kind::{describe, uid},
    write::WriteError,
};
use serde_json::{Value, json};

use crate::{failure::Failures, namespaces::MemberNamespaces, policies::volumes::Volume};

/// Labels the volumes of Tenants.
pub(crate) struct TenantVolumes {
    client: Client,
    by_namespace: Index<Volume, String>,
}

impl TenantVolumes {
    /// Registers the informer. A volume that binds a claim requeues the Tenant of the namespace.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Tenant>) -> Self {
        let volumes = builder.informer::<Volume>(Selection::All);
        let namespaces = builder.informer::<Namespace>(Selection::All);
        builder.watches(&volumes, move |change| {
            let namespace = change.new.as_ref().and_then(|volume| volume.namespace().map(ObjectKey::cluster));
            let namespace = namespace.and_then(|namespace| namespaces.store().get(&namespace));
            namespace.map(|namespace| tenants_of_volume(change, &namespace)).unwrap_or_default()
        });
        let by_namespace = |volume: &Volume| volume.namespace().map(str::to_owned).into_iter().collect();
        Self { client: builder.client(), by_namespace: volumes.store().index(by_namespace) }
    }

    /// Sets the label on the volumes that claims in the namespaces bind.
    pub(crate) async fn label(&self, tenant: &Tenant, members: &MemberNamespaces) -> Failures {
        let mut failures = Failures::default();
        let api = Api::<PersistentVolume>::all(self.client.clone());
        for namespace in members.all() {
            for volume in self.by_namespace.get(&namespace.name_any()) {
                let Some(patch) = patch(&volume, &tenant.name_any()) else { continue };
                let name = volume.name_any();
                match api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                    Err(error) if !is_not_found(&error) => failures.add(WriteError::Api {
                        action: "label",
                        object: describe::<PersistentVolume>(&ObjectKey::cluster(&name)),
                        source: error,
                    }),
                    _ => {}
                }
            }
        }
        failures
    }
}

/// Returns the Tenant of a namespace whose volume lacks its label.
fn tenants_of_volume(change: &Change<Volume>, namespace: &Arc<Namespace>) -> Vec<ObjectKey> {
    let tenants = referenced_tenants(&namespace.metadata);
    let lacks_label = |tenant: &String| {
        change.new.as_ref().is_some_and(|volume| volume.labels().get(TENANT_LABEL) != Some(tenant))
    };
    tenants.iter().filter(|tenant| lacks_label(tenant)).map(|tenant| ObjectKey::cluster(tenant)).collect()
}

/// Returns the merge patch that sets the label, or `None` if the volume has it.
fn patch(volume: &Volume, tenant: &str) -> Option<Value> {
    if volume.labels().get(TENANT_LABEL).is_some_and(|label| label == tenant) {
        return None;
    }
    Some(json!({ "metadata": { "uid": uid(volume), "labels": { TENANT_LABEL: tenant } } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(labels: Value) -> Volume {
        let claim = json!({ "namespace": "oil-dev", "name": "data" });
        let metadata = json!({ "name": "pv", "uid": "1", "labels": labels });
        serde_json::from_value(json!({ "metadata": metadata, "spec": { "claimRef": claim } })).unwrap()
    }

    #[test]
    fn missing_empty_and_stale_labels_are_replaced() {
        let expected = json!({ "metadata": { "uid": "1", "labels": { TENANT_LABEL: "oil" } } });
        for labels in [json!({}), json!({ TENANT_LABEL: "" }), json!({ TENANT_LABEL: "gas" })] {
            assert_eq!(patch(&volume(labels), "oil"), Some(expected.clone()));
        }
        assert_eq!(patch(&volume(json!({ TENANT_LABEL: "oil" })), "oil"), None);
    }

    #[test]
    fn volume_without_label_requeues_the_tenant() {
        let namespace = json!({ "metadata": { "name": "oil-dev", "labels": { TENANT_LABEL: "oil" } } });
        let namespace = Arc::new(serde_json::from_value(namespace).unwrap());
        let requeued = |volume: Option<Volume>| {
            let change = Change { key: ObjectKey::cluster("pv"), old: None, new: volume.map(Arc::new) };
            tenants_of_volume(&change, &namespace)
        };
        assert_eq!(requeued(Some(volume(json!({})))), [ObjectKey::cluster("oil")]);
        assert_eq!(requeued(Some(volume(json!({ TENANT_LABEL: "oil" })))), []);
        assert_eq!(requeued(None), []);
    }
}
