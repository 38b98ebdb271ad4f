//! Test environment and helpers.

use std::{fmt::Debug, sync::Arc, time::Duration};

use cluster::{TestNamespace, wait::eventually};
use harness::Harness;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use operator_core::conditions::{find, is_true};
use postgres::{CLUSTER_LABEL, PostgresCluster, PostgresClusterController, PostgresClusterStatus};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Timeout for a single step on a slow machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout for garbage collection. The collector discovers a new kind after up to 30 seconds.
const UNTIL_COLLECTED: Duration = Duration::from_secs(90);

/// A namespace for one test on the shared cluster on which the controller runs.
pub(crate) struct TestEnv {
    pub(crate) harness: Arc<Harness>,
    pub(crate) namespace: TestNamespace,
    pub(crate) client: Client,
}

impl TestEnv {
    /// Creates an environment, and this number of volumes for PersistentVolumeClaims without a class.
    pub(crate) async fn new(volumes: usize) -> Self {
        let harness = harness::controller::<PostgresClusterController>().await.unwrap();
        let restricted = [("pod-security.kubernetes.io/enforce", "restricted")];
        let namespace = harness.cluster.labelled_namespace("postgres", &restricted).await.unwrap();
        let client = harness.cluster.client().await.unwrap();
        let env = Self { harness, namespace, client };
        env.create_volumes(volumes).await;
        env
    }

    /// Creates volumes for PersistentVolumeClaims without a class.
    pub(crate) async fn create_volumes(&self, count: usize) {
        let volume: PersistentVolume = serde_json::from_value(json!({
            "metadata": {"generateName": "postgres-"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/nonexistent"},
            },
        }))
        .unwrap();
        for _ in 0..count {
            Api::all(self.client.clone()).create(&PostParams::default(), &volume).await.unwrap();
        }
    }

    /// Returns the API for a kind in the namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> kube::Result<PostgresCluster> {
        let cluster = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
            "metadata": {"name": name}, "spec": spec,
        });
        let cluster = serde_json::from_value(cluster).unwrap();
        self.api().create(&PostParams::default(), &cluster).await
    }

    /// Creates a cluster of this size, and waits until it is ready.
    pub(crate) async fn ready(&self, name: &str, size: i32) -> PostgresCluster {
        self.create(name, json!({"size": size})).await.unwrap();
        self.until_ready(name, size).await
    }

    /// Changes fields of the spec.
    pub(crate) async fn change(&self, name: &str, spec: Value) -> kube::Result<PostgresCluster> {
        self.api().patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await
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
        let api = self.api::<K>();
        eventually(what, TIMEOUT, async || {
            let object = api.get(name).await?;
            Ok(if is_so(&object) { Ok(object) } else { Err(object) })
        })
        .await
        .unwrap()
    }

    /// Waits until the cluster is ready with this number of members.
    pub(crate) async fn until_ready(&self, name: &str, size: i32) -> PostgresCluster {
        self.until(name, &format!("{name} to have {size} ready members"), |cluster: &PostgresCluster| {
            let status = status(cluster);
            status.observed_generation == cluster.metadata.generation
                && (status.size, status.ready_members) == (size, size)
                && is_true(&status.conditions, "Ready")
        })
        .await
    }

    /// Waits until the condition has this status and reason. Returns its message.
    pub(crate) async fn until_condition(&self, name: &str, type_: &str, expected: (&str, &str)) -> String {
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
        let params = ListParams::default().labels(&format!("{CLUSTER_LABEL}={cluster}"));
        let mut names: Vec<_> =
            self.api::<K>().list(&params).await.unwrap().iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    /// Waits until the cluster has no Pods.
    pub(crate) async fn until_no_pods(&self, cluster: &str) {
        eventually("the Pods to be gone", UNTIL_COLLECTED, async || {
            let pods = self.pods(cluster).await;
            Ok(if pods.is_empty() { Ok(()) } else { Err(pods) })
        })
        .await
        .unwrap();
    }

    /// Waits for an Event of the cluster with this reason and note.
    pub(crate) async fn event(&self, cluster: &str, reason: &str, note: &str) {
        eventually(&format!("the Event {reason}: {note}"), TIMEOUT, async || {
            let events = self.api::<Event>().list(&ListParams::default()).await?;
            let notes: Vec<_> = events
                .iter()
                .filter(|event| event.involved_object.name.as_deref() == Some(cluster))
                .map(|event| (event.reason.clone(), event.message.clone()))
                .collect();
            let found = notes.contains(&(Some(reason.to_owned()), Some(note.to_owned())));
            Ok(if found { Ok(()) } else { Err(notes) })
        })
        .await
        .unwrap();
    }
}

pub(crate) fn status(cluster: &PostgresCluster) -> PostgresClusterStatus {
    cluster.status.clone().unwrap_or_default()
}

/// Returns the names of the members.
pub(crate) fn members(cluster: &PostgresCluster) -> Vec<String> {
    status(cluster).instances.into_iter().map(|instance| instance.name).collect()
}
