//! A namespace with clusters, and what tests ask about them.

use std::{
    fmt::Debug,
    ops::{Deref, DerefMut},
};

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Event, PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use operator_core::conditions::{find, is_true};
use postgres::{CLUSTER_LABEL, PostgresCluster, PostgresClusterStatus};
use postgres_processes::{Kubelet, Member};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A namespace for one test.
pub(crate) struct TestEnv(Kubelet);

impl Deref for TestEnv {
    type Target = Kubelet;

    fn deref(&self) -> &Kubelet {
        &self.0
    }
}

impl DerefMut for TestEnv {
    fn deref_mut(&mut self) -> &mut Kubelet {
        &mut self.0
    }
}

impl TestEnv {
    pub(crate) async fn new() -> Self {
        Self::on(Kubelet::new().await.unwrap())
    }

    /// Returns the namespace of this kubelet.
    pub(crate) fn on(kubelet: Kubelet) -> Self {
        Self(kubelet)
    }

    /// Creates a cluster whose Pods the kubelet of the test runs.
    pub(crate) async fn create(&self, name: &str, mut spec: Value) {
        spec["nodeSelector"] = Kubelet::node_selector();
        let cluster = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
            "metadata": {"name": name}, "spec": spec,
        });
        let cluster = serde_json::from_value(cluster).unwrap();
        self.api::<PostgresCluster>().create(&PostParams::default(), &cluster).await.unwrap();
    }

    /// Creates a cluster of this size, and waits until it is ready.
    pub(crate) async fn ready(&mut self, name: &str, size: i32) -> PostgresCluster {
        self.create(name, json!({"size": size})).await;
        self.until_ready(name, size).await
    }

    /// Changes fields of the spec.
    pub(crate) async fn change(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.api::<PostgresCluster>().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Runs kubectl in the namespace.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let args = [&["--namespace", self.0.namespace.name()], args].concat();
        self.0.harness.cluster.kubectl(&args).await
    }

    /// Waits until `check` returns a value.
    pub(crate) async fn eventually<T, E: Debug>(
        &mut self,
        what: &str,
        mut check: impl AsyncFnMut() -> anyhow::Result<Result<T, E>>,
    ) -> T {
        self.0.until(what, async |_: &[Member]| check().await).await.unwrap()
    }

    /// Waits until the object exists and `is_so` holds for it.
    pub(crate) async fn until<K>(&mut self, name: &str, what: &str, is_so: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>();
        self.eventually(what, async || {
            Ok(match api.get_opt(name).await? {
                Some(object) if is_so(&object) => Ok(object),
                other => Err(other),
            })
        })
        .await
    }

    /// Waits until the cluster is ready with this number of members.
    pub(crate) async fn until_ready(&mut self, name: &str, size: i32) -> PostgresCluster {
        self.until(name, &format!("{name} to have {size} ready members"), |cluster: &PostgresCluster| {
            let status = status(cluster);
            status.observed_generation == cluster.metadata.generation
                && (status.size, status.ready_members) == (size, size)
                && is_true(&status.conditions, "Ready")
        })
        .await
    }

    /// Waits until the condition has this status and reason. Returns its message.
    pub(crate) async fn until_condition(
        &mut self,
        name: &str,
        type_: &str,
        expected: (&str, &str),
    ) -> String {
        let cluster = self
            .until(name, &format!("{type_} to be {expected:?}"), |cluster: &PostgresCluster| {
                find(&status(cluster).conditions, type_)
                    .is_some_and(|found| (found.status.as_str(), found.reason.as_str()) == expected)
            })
            .await;
        find(&status(&cluster).conditions, type_).unwrap().message.clone()
    }

    /// Returns the names of the Pods of a cluster.
    pub(crate) async fn pods(&self, cluster: &str) -> Vec<String> {
        self.names::<Pod>(cluster).await
    }

    /// Returns the names of the volumes of a cluster.
    pub(crate) async fn volumes(&self, cluster: &str) -> Vec<String> {
        self.names::<PersistentVolumeClaim>(cluster).await
    }

    async fn names<K>(&self, cluster: &str) -> Vec<String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        names(&self.api::<K>(), cluster).await
    }

    /// Waits until the cluster has no Pods.
    pub(crate) async fn until_no_pods(&mut self, cluster: &str) {
        let api = self.api::<Pod>();
        self.eventually("the Pods to be gone", async || {
            let pods = names(&api, cluster).await;
            Ok(if pods.is_empty() { Ok(()) } else { Err(pods) })
        })
        .await;
    }

    /// Waits for an Event of the cluster with this reason and note.
    pub(crate) async fn event(&mut self, cluster: &str, reason: &str, note: &str) {
        let api = self.api::<Event>();
        self.eventually(&format!("the Event {reason}: {note}"), async || {
            let events = api.list(&ListParams::default()).await?;
            let notes: Vec<_> = events
                .iter()
                .filter(|event| event.involved_object.name.as_deref() == Some(cluster))
                .map(|event| (event.reason.clone(), event.message.clone()))
                .collect();
            let found = notes.contains(&(Some(reason.to_owned()), Some(note.to_owned())));
            Ok(if found { Ok(()) } else { Err(notes) })
        })
        .await;
    }
}

/// Returns the names of the objects of a cluster.
pub(crate) async fn names<K>(api: &Api<K>, cluster: &str) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let params = ListParams::default().labels(&format!("{CLUSTER_LABEL}={cluster}"));
    let mut names: Vec<_> = api.list(&params).await.unwrap().iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

pub(crate) fn status(cluster: &PostgresCluster) -> PostgresClusterStatus {
    cluster.status.clone().unwrap_or_default()
}

/// Returns the names of the members.
pub(crate) fn members(cluster: &PostgresCluster) -> Vec<String> {
    status(cluster).instances.into_iter().map(|instance| instance.name).collect()
}
