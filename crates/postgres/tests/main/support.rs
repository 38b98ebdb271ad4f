//! Test environment.

use cluster::TestNamespace;
use kube::{
    Api, Client, CustomResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use postgres::{PostgresBackup, PostgresCluster};
use serde_json::{Value, json};

/// A namespace for one test. No controller runs.
pub(crate) struct TestEnv {
    pub(crate) namespace: TestNamespace,
    pub(crate) client: Client,
    pub(crate) api: Api<PostgresCluster>,
}

impl TestEnv {
    pub(crate) async fn new() -> Self {
        let cluster = cluster::shared().await.unwrap();
        cluster.install_crds(&[PostgresCluster::crd(), PostgresBackup::crd()]).await.unwrap();
        let namespace = cluster.namespace("postgres").await.unwrap();
        let client = cluster.client().await.unwrap();
        let api = Api::namespaced(client.clone(), &namespace);
        Self { namespace, client, api }
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> kube::Result<PostgresCluster> {
        let cluster = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
            "metadata": {"name": name}, "spec": spec,
        });
        let cluster = serde_json::from_value(cluster).unwrap();
        self.api.create(&PostParams::default(), &cluster).await
    }

    /// Creates a cluster with fields that the types of this program may not have.
    pub(crate) async fn create_raw(&self, name: &str, spec: Value) -> kube::Result<DynamicObject> {
        let cluster = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
            "metadata": {"name": name}, "spec": spec,
        });
        let resource = ApiResource::erase::<PostgresCluster>(&());
        let api = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        api.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await
    }

    /// Changes fields of the spec.
    pub(crate) async fn change(&self, name: &str, spec: Value) -> kube::Result<PostgresCluster> {
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await
    }
}
