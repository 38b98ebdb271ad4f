//! What the tests share: a Tenant of the test's own, and namespaces that an administrator joins to it.

use std::{
    fmt::Debug,
    hash::{BuildHasher, RandomState},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use cluster::{audit::Entry, wait::eventually};
use harness::Harness;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Namespace, jiff::Timestamp};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use operator_core::conditions::{find, is_true};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tenant::{Tenant, TenantController, TenantStatus};

/// Long enough for a busy machine, short enough to notice. Deleting a namespace takes Kubernetes some seconds.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The name of a Tenant that no other test has, and the cluster where the controller runs.
pub(crate) struct World {
    pub(crate) harness: Arc<Harness>,
    pub(crate) client: Client,
    pub(crate) name: String,
}

/// A kind whose objects live in namespaces.
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

impl World {
    pub(crate) async fn new() -> Self {
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

    /// The full name of a namespace of the test.
    pub(crate) fn named(&self, end: &str) -> String {
        format!("{}-{end}", self.name)
    }

    /// Creates a namespace with this metadata besides its name.
    pub(crate) async fn namespace(&self, end: &str, mut metadata: Value) -> Namespace {
        metadata["name"] = self.named(end).into();
        let namespace = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        self.namespaces().create(&PostParams::default(), &namespace).await.unwrap()
    }

    /// Creates a namespace that an administrator joins to the Tenant, by label and owner reference.
    pub(crate) async fn join(&self, end: &str) -> Namespace {
        let tenant = self.tenants().get(&self.name).await.unwrap();
        self.namespace(end, json!({ "labels": label(&self.name), "ownerReferences": [reference(&tenant)] }))
            .await
    }

    /// Changes a namespace by a merge patch of its metadata.
    pub(crate) async fn patch_namespace(&self, end: &str, metadata: Value) {
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        self.namespaces().patch(&self.named(end), &PatchParams::default(), &patch).await.unwrap();
    }

    /// A Tenant with that spec and those namespaces, ready.
    pub(crate) async fn ready(&self, spec: Value, namespaces: &[&str]) -> Tenant {
        self.create(spec).await;
        for end in namespaces {
            self.join(end).await;
        }
        self.until_ready(namespaces).await
    }

    /// Waits until `is_so` holds for the Tenant.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Tenant) -> bool) -> Tenant {
        eventually(what, PATIENCE, async || {
            let tenant = self.tenants().get(&self.name).await?;
            Ok(if is_so(&tenant) { Ok(tenant) } else { Err(tenant.status) })
        })
        .await
        .unwrap()
    }

    /// Waits until the Tenant says that all is as its spec asks, in exactly these namespaces.
    pub(crate) async fn until_ready(&self, namespaces: &[&str]) -> Tenant {
        let names: Vec<_> = namespaces.iter().map(|end| self.named(end)).collect();
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

    /// Waits until a condition of the Tenant has this status and its message contains these words.
    pub(crate) async fn until_said(&self, type_: &str, says: &str, words: &str) -> Tenant {
        self.until(&format!("{type_} to be {says} with {words:?}"), |tenant| {
            said(tenant, type_).is_some_and(|(status, _, message)| status == says && message.contains(words))
        })
        .await
    }

    /// Waits until `is_so` holds for the objects of a kind in a namespace, and returns them sorted by name.
    pub(crate) async fn until_objects<K: Namespaced>(
        &self,
        end: &str,
        what: &str,
        is_so: impl Fn(&[K]) -> bool,
    ) -> Vec<K> {
        eventually(&format!("{} {what}", K::plural(&())), PATIENCE, async || {
            let objects = self.objects::<K>(end).await?;
            Ok(if is_so(&objects) { Ok(objects) } else { Err(serde_json::to_string(&objects)) })
        })
        .await
        .unwrap()
    }

    /// Waits until `is_so` holds for one object.
    pub(crate) async fn until_object<K: Namespaced>(
        &self,
        end: &str,
        name: &str,
        what: &str,
        is_so: impl Fn(&K) -> bool,
    ) -> K {
        eventually(&format!("{} {name} {what}", K::kind(&())), PATIENCE, async || {
            let object = self.api::<K>(&self.named(end)).get_opt(name).await?;
            Ok(match object {
                Some(object) if is_so(&object) => Ok(object),
                other => Err(serde_json::to_string(&other)),
            })
        })
        .await
        .unwrap()
    }

    async fn objects<K: Namespaced>(&self, end: &str) -> anyhow::Result<Vec<K>> {
        let mut objects = self.api::<K>(&self.named(end)).list(&ListParams::default()).await?.items;
        objects.sort_by_key(ResourceExt::name_any);
        Ok(objects)
    }

    /// What the controller itself has written since then in the test's namespaces, to the namespaces, and to
    /// the Tenant.
    pub(crate) fn writes(&self, since: Timestamp) -> Vec<String> {
        self.requests(|entry| entry.time > since && entry.is_write())
    }

    /// What the controller has asked since then that was refused, or that its caches could have told it.
    pub(crate) fn in_vain(&self, since: Timestamp) -> Vec<String> {
        self.requests(|entry| entry.time > since && (entry.code >= 400 || entry.verb == "get"))
    }

    fn requests(&self, keep: impl Fn(&Entry) -> bool) -> Vec<String> {
        let log = self.harness.requests().unwrap();
        let ours = |name: &str| name == self.name || name.starts_with(&format!("{}-", self.name));
        let about_ours = |entry: &Entry| ours(&entry.namespace) || ours(&entry.name);
        let kept = log.filter(|entry| keep(entry) && entry.group != "events.k8s.io" && about_ours(entry));
        let words = kept
            .entries
            .iter()
            .map(|entry| format!("{} {}/{} {}", entry.verb, entry.resource, entry.subresource, entry.name));
        words.collect()
    }

    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        self.harness.cluster.kubectl(args).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.harness.cluster.is_owned() {
            return;
        }
        // In a cluster that outlives the test, the Tenant takes its namespaces with it.
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

/// An owner reference to the Tenant, as a member has it.
pub(crate) fn reference(tenant: &Tenant) -> Value {
    json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
        "name": tenant.name_any(), "uid": tenant.uid(),
    })
}

pub(crate) fn status(tenant: &Tenant) -> TenantStatus {
    tenant.status.clone().unwrap_or_default()
}

/// Status, reason and message of a condition.
pub(crate) fn said(tenant: &Tenant, type_: &str) -> Option<(String, String, String)> {
    let conditions = status(tenant).conditions;
    find(&conditions, type_).map(|found| (found.status.clone(), found.reason.clone(), found.message.clone()))
}
