//! Installation from `deploy`: the API server accepts all manifests, the Pods are admitted, and a
//! manager works with the arguments and permissions of its Deployment.

mod deployed;
mod helm;
mod helm_cli;
mod kustomize;
mod manifests;

pub(crate) use deployed::Deployed;
pub(crate) use helm_cli::{Helm, HelmProcess, RELEASE};
use serde_json::json;

use crate::support::{MEMCACHED, POD_SET, TestEnv};

/// Creates a namespace and waits for its ServiceAccount, without which the API server rejects Pods.
pub(crate) async fn create_namespace(stage: &TestEnv, name: &str) {
    stage.kubectl(&["create", "namespace", name]).await.unwrap();
    let within = format!("--namespace={name}");
    let created = ["wait", "--for=create", "serviceaccount/default", &within, "--timeout=60s"];
    stage.kubectl(&created).await.unwrap();
}

/// Creates a PodSet and a Memcached, which work in any cluster, and waits until they are
/// reconciled.
async fn wait_until_reconciled(stage: &TestEnv, namespace: &str, name: &str) {
    stage.create(&POD_SET, namespace, name, json!({ "replicas": 1 })).await;
    stage.create(&MEMCACHED, namespace, name, json!({ "size": 1 })).await;
    stage.until_ready(&POD_SET, namespace, name).await;
    stage.until_ready(&MEMCACHED, namespace, name).await;
}
