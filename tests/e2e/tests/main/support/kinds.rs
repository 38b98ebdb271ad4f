//! The kinds that the manager serves, without their Rust types: as anybody sees them.

use cluster::wait;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, Stage};

/// A kind, as the API server names it.
pub(crate) struct Kind {
    group: &'static str,
    version: &'static str,
    singular: &'static str,
    plural: &'static str,
}

pub(crate) const POD_SET: Kind =
    Kind { group: "app.example.com", version: "v1alpha1", singular: "PodSet", plural: "podsets" };
pub(crate) const MEMCACHED: Kind =
    Kind { group: "cache.example.com", version: "v1alpha1", singular: "Memcached", plural: "memcacheds" };
pub(crate) const NAMESPACE_PLUS: Kind =
    Kind { group: "mygroup.my.domain", version: "v1", singular: "NamespacePlus", plural: "namespacepluses" };
pub(crate) const TENANT: Kind =
    Kind { group: "capsule.clastix.io", version: "v1beta2", singular: "Tenant", plural: "tenants" };
pub(crate) const CONFIGURATION: Kind = Kind {
    group: "capsule.clastix.io",
    version: "v1beta2",
    singular: "CapsuleConfiguration",
    plural: "capsuleconfigurations",
};
pub(crate) const TENANT_OWNER: Kind =
    Kind { group: "capsule.clastix.io", version: "v1beta2", singular: "TenantOwner", plural: "tenantowners" };

impl Kind {
    /// `group/version`.
    pub(crate) fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// The name of its definition.
    pub(crate) fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The name of the kind in manifests.
    pub(crate) fn singular(&self) -> &'static str {
        self.singular
    }
}

impl Stage {
    /// The objects of a kind in a namespace; of a cluster-scoped kind with "".
    pub(crate) async fn api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        let client = self.cluster.client().await.unwrap();
        let named = GroupVersionKind::gvk(kind.group, kind.version, kind.singular);
        let resource = ApiResource::from_gvk_with_plural(&named, kind.plural);
        match namespace {
            "" => Api::all_with(client, &resource),
            namespace => Api::namespaced_with(client, namespace, &resource),
        }
    }

    /// Creates an object.
    pub(crate) async fn create(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        spec: Value,
    ) -> DynamicObject {
        let object = json!({
            "apiVersion": kind.api_version(), "kind": kind.singular, "metadata": { "name": name }, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        self.api(kind, namespace).await.create(&PostParams::default(), &object).await.unwrap()
    }

    /// Changes the spec of an object.
    pub(crate) async fn change(&self, kind: &Kind, namespace: &str, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api(kind, namespace).await.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Deletes an object, or asks for it if finalizers hold it.
    pub(crate) async fn delete(&self, kind: &Kind, namespace: &str, name: &str) {
        self.api(kind, namespace).await.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a Tenant says that all is as its spec asks, in so many namespaces.
    pub(crate) async fn until_joined(&self, tenant: &str, namespaces: i64) {
        let joined = |tenant: &DynamicObject| {
            is_settled(tenant) && tenant.data["status"]["size"].as_i64() == Some(namespaces)
        };
        self.until(&TENANT, "", tenant, "to have its namespaces", joined).await;
    }

    /// Waits until an object says that all is as its spec asks.
    pub(crate) async fn until_settled(&self, kind: &Kind, namespace: &str, name: &str) -> DynamicObject {
        self.until(kind, namespace, name, "to be ready", is_settled).await
    }

    /// Waits until an object is so.
    pub(crate) async fn until(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        what: &str,
        is_so: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let api = self.api(kind, namespace).await;
        let condition = |object: Option<&DynamicObject>| object.is_some_and(&is_so);
        wait::condition(&api, name, what, PATIENCE, condition).await.unwrap().unwrap()
    }

    /// Waits until there is no such object.
    pub(crate) async fn until_gone(&self, kind: &Kind, namespace: &str, name: &str) {
        let api = self.api(kind, namespace).await;
        let is_gone = |object: Option<&DynamicObject>| object.is_none();
        wait::condition(&api, name, "to be gone", PATIENCE, is_gone).await.unwrap();
    }
}

/// Whether the condition Ready is true of the present spec.
fn is_settled(object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    status["observedGeneration"].as_i64() == object.metadata.generation
        && status["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is_ready))
}
