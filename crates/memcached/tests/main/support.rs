//! Test environment and helpers.

use std::{fmt::Debug, sync::Arc, time::Duration};

use cluster::{TestNamespace, wait::eventually};
use harness::Harness;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment, core::v1::Service, discovery::v1::EndpointSlice,
        policy::v1::PodDisruptionBudget,
    },
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use memcached::{Memcached, MemcachedController, MemcachedStatus};
use operator_core::conditions::{find, is_true};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Timeout for a single step on a slow machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for garbage collection. The collector discovers a new kind after up to 30 seconds.
const UNTIL_COLLECTED: Duration = Duration::from_secs(90);

/// A namespace for one test on the shared cluster on which the controller runs.
pub(crate) struct TestEnv {
    pub(crate) harness: Arc<Harness>,
    pub(crate) namespace: TestNamespace,
    pub(crate) client: Client,
}

impl TestEnv {
    pub(crate) async fn new() -> Self {
        Self::labelled(&[]).await
    }

    /// Creates an environment whose namespace has these labels.
    pub(crate) async fn labelled(labels: &[(&str, &str)]) -> Self {
        let harness = harness::controller::<MemcachedController>().await.unwrap();
        let namespace = harness.cluster.labelled_namespace("memcached", labels).await.unwrap();
        let client = harness.cluster.client().await.unwrap();
        Self { harness, namespace, client }
    }

    /// Returns the API for a kind in the namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn caches(&self) -> Api<Memcached> {
        self.api()
    }

    pub(crate) fn deployments(&self) -> Api<Deployment> {
        self.api()
    }

    pub(crate) fn services(&self) -> Api<Service> {
        self.api()
    }

    pub(crate) fn budgets(&self) -> Api<PodDisruptionBudget> {
        self.api()
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> Memcached {
        let cache = json!({
            "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
            "metadata": {"name": name}, "spec": spec,
        });
        let cache = serde_json::from_value(cache).unwrap();
        self.caches().create(&PostParams::default(), &cache).await.unwrap()
    }

    /// Creates a Memcached of this size and waits until it is ready.
    pub(crate) async fn ready(&self, name: &str, size: i32) -> Memcached {
        self.create(name, json!({"size": size})).await;
        self.until_ready(name, size).await
    }

    /// Changes fields of the spec.
    pub(crate) async fn change(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.caches().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Returns the addresses of a Service, once it lists all Pods of the Memcached `web`.
    pub(crate) async fn addresses(&self, service: &str) -> Vec<String> {
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        eventually(&format!("{service} to list the pods"), TIMEOUT, async || {
            let slices = self.api::<EndpointSlice>().list(&of_service).await?;
            let mut listed: Vec<_> = slices
                .iter()
                .flat_map(|slice| {
                    slice.endpoints.iter().flatten().flat_map(|endpoint| endpoint.addresses.clone())
                })
                .collect();
            listed.sort();
            let nodes = status(&self.caches().get("web").await?).nodes.len();
            Ok(if listed.len() == nodes { Ok(listed) } else { Err(listed) })
        })
        .await
        .unwrap()
    }

    /// Applies each JSON patch in turn and waits until the controller reverts it.
    pub(crate) async fn is_reverted<K>(&self, api: Api<K>, name: &str, patches: &[Value])
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let owned = |object: &K| {
            let object = serde_json::to_value(object).unwrap();
            let annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            let annotations: Vec<_> =
                annotations.into_iter().filter(|(key, _)| key.starts_with("prometheus.io/")).collect();
            (object["spec"].clone(), object["metadata"]["labels"].clone(), annotations)
        };
        let wanted = owned(&api.get(name).await.unwrap());
        for patch in patches {
            let patch: Patch<Value> = Patch::Json(serde_json::from_value(json!([patch])).unwrap());
            let drifted = api.patch(name, &PatchParams::default(), &patch).await.unwrap();
            assert_ne!(owned(&drifted), wanted, "{patch:?} changed nothing");
            self.until::<K>(name, &format!("{patch:?} to be reverted"), |now| owned(now) == wanted).await;
        }
    }

    /// Runs kubectl in the namespace.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let args = [&["--namespace", self.namespace.name()], args].concat();
        self.harness.cluster.kubectl(&args).await
    }

    /// Waits until `is_so` holds for the object.
    pub(crate) async fn until<K>(&self, name: &str, what: &str, is_so: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.until_within(TIMEOUT, name, what, is_so).await
    }

    async fn until_within<K>(
        &self,
        timeout: Duration,
        name: &str,
        what: &str,
        is_so: impl Fn(&K) -> bool,
    ) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>();
        eventually(what, timeout, async || {
            let object = api.get(name).await?;
            Ok(if is_so(&object) { Ok(object) } else { Err(object) })
        })
        .await
        .unwrap()
    }

    /// Waits until the object no longer exists.
    pub(crate) async fn until_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>();
        eventually(&format!("the {} {name} to be deleted", K::kind(&())), UNTIL_COLLECTED, async || {
            Ok(api.get_opt(name).await?.is_none())
        })
        .await
        .unwrap();
    }

    /// Waits until the Memcached is ready with this number of Pods.
    pub(crate) async fn until_ready(&self, name: &str, size: i32) -> Memcached {
        self.until_ready_within(TIMEOUT, name, size).await
    }

    /// Does the same for a Memcached that waits for the objects of a deleted one of the same name.
    pub(crate) async fn until_ready_after_another(&self, name: &str, size: i32) -> Memcached {
        self.until_ready_within(UNTIL_COLLECTED, name, size).await
    }

    async fn until_ready_within(&self, timeout: Duration, name: &str, size: i32) -> Memcached {
        self.until_within(timeout, name, &format!("{name} to have {size} ready pods"), |cache: &Memcached| {
            let status = status(cache);
            status.observed_generation == cache.metadata.generation
                && status.ready_replicas == size
                && is_true(&status.conditions, "Ready")
        })
        .await
    }

    /// Waits until the condition has this status and reason. Returns its message.
    pub(crate) async fn until_condition(&self, name: &str, type_: &str, expected: (&str, &str)) -> String {
        let cache = self
            .until(name, &format!("{type_} to be {expected:?}"), |cache: &Memcached| {
                find(&status(cache).conditions, type_)
                    .is_some_and(|found| (found.status.as_str(), found.reason.as_str()) == expected)
            })
            .await;
        find(&status(&cache).conditions, type_).unwrap().message.clone()
    }
}

pub(crate) fn status(cache: &Memcached) -> MemcachedStatus {
    cache.status.clone().unwrap_or_default()
}
