//! Runs kubectl.

use anyhow::Result;
use cluster::wait::eventually;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, TENANT, TestEnv};

impl TestEnv {
    /// Runs kubectl as the administrator.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.cluster.kubectl(args).await
    }

    /// Returns the output of a command as JSON.
    pub(crate) async fn read(&self, args: &[&str]) -> Value {
        let args = [args, &["--output=json"]].concat();
        serde_json::from_str(&self.kubectl(&args).await.unwrap()).unwrap()
    }

    /// Returns the names that `kubectl get` lists with these arguments.
    pub(crate) async fn names(&self, args: &[&str]) -> Vec<String> {
        let all = self.read(&[&["get"], args].concat()).await;
        let items = all["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until `kubectl get` lists nothing with these arguments.
    pub(crate) async fn until_empty(&self, args: &[&str]) {
        eventually(&format!("kubectl get {args:?} to list nothing"), PATIENCE, async || {
            let left = self.names(args).await;
            Ok(if left.is_empty() { Ok(()) } else { Err(left) })
        })
        .await
        .unwrap();
    }

    /// Returns the cells of the table that `kubectl get` prints.
    pub(crate) async fn table(&self, args: &[&str]) -> Vec<Vec<String>> {
        let table = self.kubectl(&[&["get"], args].concat()).await.unwrap();
        table.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    }

    /// Waits until `kubectl get` lists this many objects, including terminating ones.
    pub(crate) async fn until_count(&self, args: &[&str], count: usize) {
        eventually(&format!("kubectl get {args:?} to list {count}"), PATIENCE, async || {
            let names = self.names(args).await;
            Ok(if names.len() == count { Ok(()) } else { Err(names) })
        })
        .await
        .unwrap();
    }

    /// Returns the object as the API server would store it, or its error.
    pub(crate) async fn dry_run(&self, object: Value) -> Result<Value, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), object.to_string()).unwrap();
        let manifest = file.path().to_str().unwrap();
        let answer = self.kubectl(&["create", "--dry-run=server", "--output=json", "-f", manifest]).await;
        answer.map(|object| serde_json::from_str(&object).unwrap()).map_err(|error| format!("{error:#}"))
    }

    /// Applies an object.
    pub(crate) async fn store(&self, object: Value) {
        self.cluster.apply_yaml(&object.to_string()).await.unwrap();
    }

    /// Creates a Tenant with one namespace.
    pub(crate) async fn create_tenant(&self, tenant: &str, namespace: &str, spec: Value) {
        self.create(&TENANT, "", tenant, spec).await;
        self.join(tenant, namespace).await;
        self.until_tenant_ready(tenant, 1).await;
    }

    /// Creates a namespace as an administrator and assigns it to a Tenant.
    pub(crate) async fn join(&self, tenant: &str, namespace: &str) {
        let tenant = self.api(&TENANT, "").await.get(tenant).await.unwrap();
        let namespace = json!({
            "metadata": {
                "name": namespace,
                "labels": { "capsule.clastix.io/tenant": tenant.name_any() },
                "ownerReferences": [{
                    "apiVersion": TENANT.api_version(), "kind": "Tenant", "name": tenant.name_any(),
                    "uid": tenant.metadata.uid,
                }],
            },
        });
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let namespaces = Api::<Namespace>::all(self.cluster.client().await.unwrap());
        let params = PatchParams::apply("kubectl").force();
        namespaces.patch(&namespace.name_any(), &params, &Patch::Apply(&namespace)).await.unwrap();
    }
}
