//! Helpers that create and watch PodSets.

use std::{sync::Arc, time::Duration};

use cluster::{TestNamespace, wait::eventually};
use harness::Harness;
use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use podset::{PodSet, PodSetController};
use serde_json::{Value, json};

/// Timeout for anything that does not wait for the garbage collector.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the garbage collector, which discovers a new kind after up to 30 seconds.
pub(crate) const GARBAGE_COLLECTION_TIMEOUT: Duration = Duration::from_secs(90);

/// Namespace of one test on the shared cluster, on which the controller runs.
pub(crate) struct TestEnv {
    pub(crate) harness: Arc<Harness>,
    pub(crate) namespace: TestNamespace,
    pub(crate) client: Client,
}

impl TestEnv {
    pub(crate) async fn new() -> Self {
        let harness = harness::controller::<PodSetController>().await.unwrap();
        let namespace = harness.cluster.namespace("podset").await.unwrap();
        let client = harness.cluster.client().await.unwrap();
        Self { harness, namespace, client }
    }

    pub(crate) fn sets(&self) -> Api<PodSet> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> PodSet {
        self.sets().create(&PostParams::default(), &set(name, spec)).await.unwrap()
    }

    /// Creates a PodSet with kubectl. `spec` is YAML in one line.
    pub(crate) async fn write_manifest(&self, name: &str, spec: &str) -> anyhow::Result<String> {
        self.write("app.example.com/v1alpha1", "PodSet", name, spec).await
    }

    /// Creates an object with kubectl. `spec` is YAML in one line.
    pub(crate) async fn write(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
        spec: &str,
    ) -> anyhow::Result<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let manifest =
            format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n");
        std::fs::write(file.path(), manifest).unwrap();
        self.kubectl(&["create", "-f", file.path().to_str().unwrap()]).await
    }

    /// Runs kubectl in the namespace.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let args = [&["--namespace", self.namespace.name()], args].concat();
        self.harness.cluster.kubectl(&args).await
    }

    /// Waits until the PodSet meets the condition `is_met`. Returns the PodSet.
    pub(crate) async fn until(&self, name: &str, what: &str, is_met: impl Fn(&PodSet) -> bool) -> PodSet {
        eventually(what, TIMEOUT, async || {
            let set = self.sets().get(name).await?;
            Ok(if is_met(&set) { Ok(set) } else { Err(set.status) })
        })
        .await
        .unwrap()
    }

    /// Waits until the condition Ready is False with this reason. Returns the PodSet.
    pub(crate) async fn until_not_ready(&self, name: &str, reason: &str) -> PodSet {
        self.until(name, &format!("{name} to have Ready=False with reason {reason}"), |set| {
            let status = set.status.clone().unwrap_or_default();
            let ready = operator_core::conditions::find(&status.conditions, "Ready");
            status.observed_generation == set.metadata.generation
                && ready.is_some_and(|ready| ready.status == "False" && ready.reason == reason)
        })
        .await
    }

    /// Waits until the PodSet is Ready with this number of Pods. Returns the PodSet.
    pub(crate) async fn until_ready(&self, name: &str, pods: i32) -> PodSet {
        self.until(name, &format!("{name} to have {pods} ready Pods"), |set| {
            let status = set.status.clone().unwrap_or_default();
            status.observed_generation == set.metadata.generation
                && status.available_replicas == pods
                && operator_core::conditions::is_true(&status.conditions, "Ready")
        })
        .await
    }

    /// Returns the notes of the Events about PodSets with this reason. Equal Events are one entry.
    pub(crate) async fn events(&self, reason: &str) -> Vec<String> {
        let events = Api::<Event>::namespaced(self.client.clone(), &self.namespace);
        let selected = ListParams::default().fields(&format!("regarding.kind=PodSet,reason={reason}"));
        events.list(&selected).await.unwrap().items.into_iter().filter_map(|event| event.note).collect()
    }

    /// Removes the finalizers from a Pod.
    pub(crate) async fn remove_finalizers(&self, pod: &str) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.pods().patch(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Returns the sorted names of all Pods in the namespace.
    pub(crate) async fn pod_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .pods()
            .list(&ListParams::default())
            .await
            .unwrap()
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        names.sort();
        names
    }
}

/// Returns a Pod without owner, with the labels of the PodSet `app`.
pub(crate) fn orphan(name: &str, app: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": app, "version": "v0.1"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap()
}

pub(crate) fn set(name: &str, spec: Value) -> PodSet {
    serde_json::from_value(json!({
        "apiVersion": "app.example.com/v1alpha1", "kind": "PodSet", "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}

/// Returns the message of a condition if it has this status.
pub(crate) fn condition_message(set: &PodSet, type_: &str, status: &str) -> Option<String> {
    let conditions = &set.status.as_ref()?.conditions;
    let found = operator_core::conditions::find(conditions, type_)?;
    (found.status == status).then(|| found.message.clone())
}
