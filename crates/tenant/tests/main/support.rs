//! Test environment and helpers.

use std::{
    fmt::Debug,
    hash::{BuildHasher, RandomState},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use capsule::{Tenant, TenantStatus};
use cluster::{audit::Entry, wait::eventually};
use harness::Harness;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Namespace, jiff::Timestamp};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use operator_core::{
    Controller,
    conditions::{find, is_true},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tenant::{ConfigurationController, TenantController};

/// Timeout for a single step on a slow machine. Kubernetes needs some seconds to delete a
/// namespace.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A unique name for the Tenant of one test, on the shared cluster on which the controller runs.
pub(crate) struct TestEnv {
    pub(crate) harness: Arc<Harness>,
    pub(crate) client: Client,
    pub(crate) name: String,
}

/// A namespaced kind.
pub(crate) trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + 'static
{
}

impl TestEnv {
    pub(crate) async fn new() -> Self {
        // The manager always runs both controllers, and this one reads the configuration.
        let cluster = cluster::shared().await.unwrap();
        cluster.install_crds(&ConfigurationController::crds()).await.unwrap();
        let harness = harness::controller::<TenantController>().await.unwrap();
        let client = harness.cluster.client().await.unwrap();
        let name = format!("t-{:08x}", RandomState::new().hash_one(0) >> 32);
        Self { harness, client, name }
    }

    pub(crate) fn tenants(&self) -> Api<Tenant> {
        Api::all(self.client.clone())
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    pub(crate) fn api<K: Namespaced>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates the Tenant.
    pub(crate) async fn create(&self, spec: Value) -> Tenant {
        self.tenants().create(&PostParams::default(), &tenant(&self.name, spec)).await.unwrap()
    }

    /// Changes the spec by a merge patch.
    pub(crate) async fn change(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.tenants().patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Returns the name with the name of the Tenant as prefix.
    pub(crate) fn prefixed(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    /// Creates a namespace with this metadata besides its name.
    pub(crate) async fn namespace(&self, suffix: &str, mut metadata: Value) -> Namespace {
        metadata["name"] = self.prefixed(suffix).into();
        let namespace = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        self.namespaces().create(&PostParams::default(), &namespace).await.unwrap()
    }

    /// Creates a namespace of the Tenant as the administrator, with label and owner reference.
    pub(crate) async fn join(&self, suffix: &str) -> Namespace {
        let tenant = self.tenants().get(&self.name).await.unwrap();
        self.namespace(
            suffix,
            json!({ "labels": label(&self.name), "ownerReferences": [reference(&tenant)] }),
        )
        .await
    }

    /// Changes a namespace by a merge patch of its metadata.
    pub(crate) async fn patch_namespace(&self, suffix: &str, metadata: Value) {
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        self.namespaces().patch(&self.prefixed(suffix), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates the Tenant and its namespaces, and waits until they are ready.
    pub(crate) async fn ready(&self, spec: Value, namespaces: &[&str]) -> Tenant {
        self.create(spec).await;
        for suffix in namespaces {
            self.join(suffix).await;
        }
        self.until_ready(namespaces).await
    }

    /// Waits until `is_so` holds for the Tenant.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Tenant) -> bool) -> Tenant {
        eventually(what, TIMEOUT, async || {
            let tenant = self.tenants().get(&self.name).await?;
            Ok(if is_so(&tenant) { Ok(tenant) } else { Err(tenant.status) })
        })
        .await
        .unwrap()
    }

    /// Waits until the Tenant is ready for its current spec, with exactly these namespaces.
    pub(crate) async fn until_ready(&self, namespaces: &[&str]) -> Tenant {
        let names: Vec<_> = namespaces.iter().map(|suffix| self.prefixed(suffix)).collect();
        self.until(&format!("{} to be ready with {names:?}", self.name), |tenant| {
            let status = status(tenant);
            status.observed_generation == tenant.metadata.generation
                && status.namespaces == names
                && status.spaces.iter().map(|space| &space.name).eq(&names)
                && status.size == i64::try_from(names.len()).unwrap()
                && is_true(&status.conditions, "Ready")
                && status.spaces.iter().all(|space| is_true(&space.conditions, "Ready"))
        })
        .await
    }

    /// Waits until a condition of the Tenant has this status, and its message contains this text.
    pub(crate) async fn until_condition(&self, type_: &str, expected: &str, text: &str) -> Tenant {
        self.until(&format!("{type_} to be {expected} with {text:?}"), |tenant| {
            condition(tenant, type_)
                .is_some_and(|(status, _, message)| status == expected && message.contains(text))
        })
        .await
    }

    /// Waits until `is_so` holds for the objects of a kind in a namespace. Returns them sorted by
    /// name.
    pub(crate) async fn until_objects<K: Namespaced>(
        &self,
        suffix: &str,
        what: &str,
        is_so: impl Fn(&[K]) -> bool,
    ) -> Vec<K> {
        eventually(&format!("{} {what}", K::plural(&())), TIMEOUT, async || {
            let objects = self.objects::<K>(suffix).await?;
            Ok(if is_so(&objects) { Ok(objects) } else { Err(serde_json::to_string(&objects)) })
        })
        .await
        .unwrap()
    }

    /// Waits until `is_so` holds for one object.
    pub(crate) async fn until_object<K: Namespaced>(
        &self,
        suffix: &str,
        name: &str,
        what: &str,
        is_so: impl Fn(&K) -> bool,
    ) -> K {
        eventually(&format!("{} {name} {what}", K::kind(&())), TIMEOUT, async || {
            let object = self.api::<K>(&self.prefixed(suffix)).get_opt(name).await?;
            Ok(match object {
                Some(object) if is_so(&object) => Ok(object),
                other => Err(serde_json::to_string(&other)),
            })
        })
        .await
        .unwrap()
    }

    async fn objects<K: Namespaced>(&self, suffix: &str) -> anyhow::Result<Vec<K>> {
        let mut objects = self.api::<K>(&self.prefixed(suffix)).list(&ListParams::default()).await?.items;
        objects.sort_by_key(ResourceExt::name_any);
        Ok(objects)
    }

    /// Returns the writes of the controller to the Tenant, its namespaces, and the objects in them.
    pub(crate) fn writes(&self, since: Timestamp) -> Vec<String> {
        self.requests(|entry| entry.time > since && entry.is_write())
    }

    /// Returns the requests of the controller that failed, or that it could have read from its
    /// caches.
    pub(crate) fn wasted_requests(&self, since: Timestamp) -> Vec<String> {
        self.requests(|entry| entry.time > since && (entry.code >= 400 || entry.verb == "get"))
    }

    fn requests(&self, keep: impl Fn(&Entry) -> bool) -> Vec<String> {
        let log = self.harness.requests().unwrap();
        let is_of_test = |name: &str| name == self.name || name.starts_with(&format!("{}-", self.name));
        let concerns_test = |entry: &Entry| is_of_test(&entry.namespace) || is_of_test(&entry.name);
        let requests =
            log.filter(|entry| keep(entry) && entry.group != "events.k8s.io" && concerns_test(entry));
        let lines = requests
            .entries
            .iter()
            .map(|entry| format!("{} {}/{} {}", entry.verb, entry.resource, entry.subresource, entry.name));
        lines.collect()
    }

    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        self.harness.cluster.kubectl(args).await
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if self.harness.cluster.is_owned() {
            return;
        }
        // The cluster is reused by other tests. Deleting the Tenant also deletes its namespaces.
        let _ = Command::new(self.harness.cluster.record().kubectl())
            .arg("--kubeconfig")
            .arg(self.harness.cluster.kubeconfig())
            .args(["delete", "tenant", &self.name, "--wait=false", "--ignore-not-found"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
}

pub(crate) fn tenant(name: &str, spec: Value) -> Tenant {
    serde_json::from_value(json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": { "name": name }, "spec": spec,
    }))
    .unwrap()
}

pub(crate) fn label(tenant: &str) -> Value {
    json!({ "capsule.clastix.io/tenant": tenant })
}

/// Returns the owner reference of a namespace of the Tenant.
pub(crate) fn reference(tenant: &Tenant) -> Value {
    json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
        "name": tenant.name_any(), "uid": tenant.uid(),
    })
}

pub(crate) fn status(tenant: &Tenant) -> TenantStatus {
    tenant.status.clone().unwrap_or_default()
}

/// Returns status, reason, and message of a condition.
pub(crate) fn condition(tenant: &Tenant, type_: &str) -> Option<(String, String, String)> {
    let conditions = status(tenant).conditions;
    find(&conditions, type_).map(|found| (found.status.clone(), found.reason.clone(), found.message.clone()))
}
