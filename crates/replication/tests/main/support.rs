//! Test environment and helpers.

use std::{
    fmt::Debug,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use capsule::{
    Tenant,
    api::{
        crd,
        v1beta2::{CapsuleConfiguration, GlobalTenantResource, ProcessedItem, TenantResource},
    },
};
use cluster::wait::eventually;
use harness::Harness;
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Namespace, Secret, ServiceAccount},
        rbac::v1::{ClusterRoleBinding, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, CustomResourceExt, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{NamespaceResourceScope, ObjectMeta},
};
use operator_core::{conditions::find, kind::Kind};
use replication::{GlobalTenantResourceController, TenantResourceController};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Timeout for a single step on a slow machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A Tenant of one test, with its namespaces, on the shared cluster on which both controllers run.
pub(crate) struct TestEnv {
    pub(crate) local: Arc<Harness>,
    pub(crate) global: Arc<Harness>,
    pub(crate) client: Client,
    /// Name of the Tenant.
    pub(crate) name: String,
}

/// A TenantResource or a GlobalTenantResource.
pub(crate) trait Replication: Kind + Serialize + DeserializeOwned + Debug {
    fn conditions(&self) -> Vec<Condition>;
    fn items(&self) -> Vec<ProcessedItem>;
    fn observed(&self) -> Option<i64>;
}

impl Replication for TenantResource {
    fn conditions(&self) -> Vec<Condition> {
        self.status.clone().unwrap_or_default().conditions
    }

    fn items(&self) -> Vec<ProcessedItem> {
        self.status.clone().unwrap_or_default().processed_items
    }

    fn observed(&self) -> Option<i64> {
        self.status.clone().unwrap_or_default().observed_generation
    }
}

impl Replication for GlobalTenantResource {
    fn conditions(&self) -> Vec<Condition> {
        self.status.clone().unwrap_or_default().conditions
    }

    fn items(&self) -> Vec<ProcessedItem> {
        self.status.clone().unwrap_or_default().processed_items
    }

    fn observed(&self) -> Option<i64> {
        self.status.clone().unwrap_or_default().observed_generation
    }
}

/// Returns status, reason, and message of the condition Ready.
pub(crate) fn ready<K: Replication>(object: &K) -> (String, String, String) {
    let conditions = object.conditions();
    let ready = find(&conditions, "Ready");
    ready.map(|one| (one.status.clone(), one.reason.clone(), one.message.clone())).unwrap_or_default()
}

impl TestEnv {
    /// Creates a Tenant with the namespace `home`, in which TenantResources are, and others. The
    /// account `replicator` may do everything in all of them.
    pub(crate) async fn new(namespaces: &[&str]) -> Self {
        let cluster = cluster::shared().await.unwrap();
        cluster.install_crds(&[crd(), CapsuleConfiguration::crd()]).await.unwrap();
        let local = harness::controller::<TenantResourceController>().await.unwrap();
        let global = harness::controller::<GlobalTenantResourceController>().await.unwrap();
        let client = cluster.client().await.unwrap();
        let name = format!("t-{:08x}", RandomState::new().hash_one(0) >> 32);
        let env = Self { local, global, client, name };
        let labels = json!({ "test": env.name });
        let tenant = json!({
            "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
            "metadata": { "name": env.name, "labels": labels }, "spec": {},
        });
        env.create_cluster::<Tenant>(tenant).await;
        env.join("home").await;
        env.account("replicator").await;
        for suffix in namespaces {
            env.join(suffix).await;
        }
        env
    }

    /// Returns the name with the name of the Tenant as prefix.
    pub(crate) fn prefixed(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    pub(crate) fn home(&self) -> String {
        self.prefixed("home")
    }

    pub(crate) fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub(crate) fn api<K>(&self, suffix: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.prefixed(suffix))
    }

    /// Creates a cluster-scoped object.
    pub(crate) async fn create_cluster<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.all::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Creates an object in a namespace of the Tenant.
    pub(crate) async fn create_in<K>(&self, suffix: &str, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>(suffix).create(&PostParams::default(), &object).await.unwrap()
    }

    /// Creates a namespace of the Tenant, in which the account `replicator` may do everything.
    pub(crate) async fn join(&self, suffix: &str) {
        let tenant = self.all::<Tenant>().get(&self.name).await.unwrap();
        let reference = json!({
            "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": self.name, "uid": tenant.uid(),
        });
        let metadata = json!({
            "name": self.prefixed(suffix), "ownerReferences": [reference],
            "labels": { "capsule.clastix.io/tenant": self.name, "suffix": suffix },
        });
        self.create_cluster::<Namespace>(json!({ "metadata": metadata })).await;
        self.bind("replicator", suffix, "cluster-admin").await;
    }

    /// Creates a ServiceAccount in `home`.
    pub(crate) async fn account(&self, name: &str) {
        self.create_in::<ServiceAccount>("home", json!({ "metadata": { "name": name } })).await;
    }

    pub(crate) fn user(&self, account: &str) -> String {
        format!("system:serviceaccount:{}:{account}", self.home())
    }

    /// Binds a ClusterRole to an account of `home` in a namespace.
    pub(crate) async fn bind(&self, account: &str, suffix: &str, role: &str) {
        let binding = json!({
            "metadata": { "name": format!("{account}-{role}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": self.home() }],
        });
        self.create_in::<RoleBinding>(suffix, binding).await;
    }

    /// Binds a ClusterRole to an account of `home` in the whole cluster.
    pub(crate) async fn bind_everywhere(&self, account: &str, role: &str) {
        let binding = json!({
            "metadata": { "name": format!("{}-{account}", self.name) },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": self.home() }],
        });
        self.create_cluster::<ClusterRoleBinding>(binding).await;
    }

    /// Creates a TenantResource. It acts as `replicator` unless the spec names another account.
    pub(crate) async fn tenant_resource(&self, name: &str, mut spec: Value) -> TenantResource {
        if spec.get("serviceAccount").is_none() {
            spec["serviceAccount"] = json!({ "name": "replicator" });
        }
        self.create_in("home", json!({ "metadata": { "name": name }, "spec": spec })).await
    }

    /// Creates a GlobalTenantResource for the Tenant of the test. It acts as `replicator`, who may
    /// do everything, unless the spec names another account.
    pub(crate) async fn global_resource(&self, suffix: &str, mut spec: Value) -> GlobalTenantResource {
        if spec.get("serviceAccount").is_none() {
            spec["serviceAccount"] = json!({ "name": "replicator", "namespace": self.home() });
        }
        if spec.get("tenantSelector").is_none() {
            spec["tenantSelector"] = json!({ "matchLabels": { "test": self.name } });
        }
        self.create_cluster(json!({ "metadata": { "name": self.prefixed(suffix) }, "spec": spec })).await
    }

    pub(crate) fn tenant_resources(&self) -> Api<TenantResource> {
        self.api("home")
    }

    /// Changes a spec by a merge patch.
    pub(crate) async fn change<K: Replication>(&self, api: &Api<K>, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the object is Ready for its current spec, with this number of items.
    pub(crate) async fn until_ready<K: Replication>(&self, api: &Api<K>, name: &str, items: usize) -> K {
        until(api, name, &format!("to be ready with {items} items"), |object| {
            object.observed() == object.meta().generation
                && ready(object).0 == "True"
                && object.items().len() == items
                && object.items().iter().all(|item| item.status.status == "True")
        })
        .await
    }

    /// Waits until the object has failed, with a message that contains this text.
    pub(crate) async fn until_failed<K: Replication>(&self, api: &Api<K>, name: &str, text: &str) -> K {
        until(api, name, &format!("to fail with {text:?}"), |object| {
            let (status, reason, message) = ready(object);
            object.observed() == object.meta().generation
                && status == "False"
                && reason == "Failed"
                && message.contains(text)
        })
        .await
    }

    /// Waits until a ConfigMap is so.
    pub(crate) async fn until_config_map(
        &self,
        suffix: &str,
        name: &str,
        what: &str,
        is_so: impl Fn(&ConfigMap) -> bool,
    ) -> ConfigMap {
        until(&self.api::<ConfigMap>(suffix), name, what, is_so).await
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone<K>(&self, api: &Api<K>, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        eventually(&format!("{name} to be gone"), TIMEOUT, async || {
            Ok(match api.get_opt(name).await? {
                None => Ok(()),
                Some(object) => Err(serde_json::to_string(&object)),
            })
        })
        .await
        .unwrap();
    }

    pub(crate) async fn delete<K>(&self, api: &Api<K>, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Creates a ConfigMap that no replication has created.
    pub(crate) async fn existing_config_map(&self, suffix: &str, name: &str, data: Value) -> ConfigMap {
        self.create_in(suffix, json!({ "metadata": { "name": name }, "data": data })).await
    }

    pub(crate) async fn secret(&self, suffix: &str, name: &str, labels: Value) -> Secret {
        let metadata = json!({ "name": name, "labels": labels });
        self.create_in(suffix, json!({ "metadata": metadata, "stringData": { "key": "hunter2" } })).await
    }

    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        self.local.cluster.kubectl(args).await
    }
}

/// Waits until an object is so.
pub(crate) async fn until<K>(api: &Api<K>, name: &str, what: &str, is_so: impl Fn(&K) -> bool) -> K
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    eventually(&format!("{name} {what}"), TIMEOUT, async || {
        Ok(match api.get_opt(name).await? {
            Some(object) if is_so(&object) => Ok(object),
            other => Err(serde_json::to_string(&other)),
        })
    })
    .await
    .unwrap()
}

/// A raw ConfigMap.
pub(crate) fn config_map(name: &str, data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
}

/// A spec with raw items for all namespaces.
pub(crate) fn raw(items: Vec<Value>) -> Value {
    json!({ "resources": [{ "rawItems": items }] })
}

/// A spec with a generator for all namespaces.
pub(crate) fn generator(template: &str) -> Value {
    json!({ "resources": [{ "generators": [{ "template": template }] }] })
}

pub(crate) fn label<'m>(meta: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

pub(crate) const CREATED_BY: &str = "projectcapsule.dev/created-by";
pub(crate) const MANAGED_BY: &str = "projectcapsule.dev/managed-by";
pub(crate) const FINALIZER: &str = "controller.projectcapsule.dev/finalize";

/// Returns the data of a ConfigMap.
pub(crate) fn data(object: &ConfigMap, key: &str) -> Option<String> {
    object.data.as_ref()?.get(key).cloned()
}
