//! The manager's kinds, used without their Rust types, as other clients do.

use cluster::wait;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, TestEnv};

/// A kind of the API.
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
pub(crate) const POSTGRES_CLUSTER: Kind =
    Kind { group: "lukeb0nd.com", version: "v1", singular: "PostgresCluster", plural: "postgresclusters" };
pub(crate) const TENANT: Kind =
    Kind { group: "capsule.clastix.io", version: "v1beta2", singular: "Tenant", plural: "tenants" };
pub(crate) const CONFIGURATION: Kind = Kind {
    group: "capsule.clastix.io",
    version: "v1beta2",
    singular: "CapsuleConfiguration",
    plural: "capsuleconfigurations",
};
pub(crate) const PROXY_SETTING: Kind = Kind {
    group: "capsule.clastix.io",
    version: "v1beta1",
    singular: "ProxySetting",
    plural: "proxysettings",
};
pub(crate) const GLOBAL_PROXY_SETTINGS: Kind = Kind {
    group: "capsule.clastix.io",
    version: "v1beta1",
    singular: "GlobalProxySettings",
    plural: "globalproxysettings",
};
pub(crate) const TENANT_OWNER: Kind =
    Kind { group: "capsule.clastix.io", version: "v1beta2", singular: "TenantOwner", plural: "tenantowners" };

pub(crate) const TENANT_RESOURCE: Kind = Kind {
    group: "capsule.clastix.io",
    version: "v1beta2",
    singular: "TenantResource",
    plural: "tenantresources",
};
pub(crate) const GLOBAL_TENANT_RESOURCE: Kind = Kind {
    group: "capsule.clastix.io",
    version: "v1beta2",
    singular: "GlobalTenantResource",
    plural: "globaltenantresources",
};

impl Kind {
    /// Returns `group/version`.
    pub(crate) fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Returns the name of the CRD.
    pub(crate) fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Returns the kind as written in manifests.
    pub(crate) fn singular(&self) -> &'static str {
        self.singular
    }
}

impl TestEnv {
    /// Returns the API of a kind in a namespace. The namespace of a cluster-scoped kind is "".
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

    /// Patches the spec of an object.
    pub(crate) async fn change(&self, kind: &Kind, namespace: &str, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api(kind, namespace).await.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Deletes an object. An object with finalizers is only marked for deletion.
    pub(crate) async fn delete(&self, kind: &Kind, namespace: &str, name: &str) {
        self.api(kind, namespace).await.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a Tenant is ready and has this many namespaces.
    pub(crate) async fn until_tenant_ready(&self, tenant: &str, namespaces: i64) {
        let joined = |tenant: &DynamicObject| {
            is_ready(tenant) && tenant.data["status"]["size"].as_i64() == Some(namespaces)
        };
        self.until(&TENANT, "", tenant, "to have its namespaces", joined).await;
    }

    /// Waits until an object is Ready and its status is up to date.
    pub(crate) async fn until_ready(&self, kind: &Kind, namespace: &str, name: &str) -> DynamicObject {
        self.until(kind, namespace, name, "to be ready", is_ready).await
    }

    /// Waits until an object satisfies a predicate.
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

    /// Waits until an object no longer exists.
    pub(crate) async fn until_gone(&self, kind: &Kind, namespace: &str, name: &str) {
        let api = self.api(kind, namespace).await;
        let is_gone = |object: Option<&DynamicObject>| object.is_none();
        wait::condition(&api, name, "to be gone", PATIENCE, is_gone).await.unwrap();
    }
}

/// Returns whether the condition Ready is true for the current spec.
fn is_ready(object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    status["observedGeneration"].as_i64() == object.metadata.generation
        && status["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is_ready))
}
