//! What is in `deploy`, as it is installed: the API server takes all of it, its pods are admitted, and a manager that is
//! started as the Deployment says, with the rights that come along, does its work.

mod chart;
mod deployed;
mod helm;
mod kustomize;
mod objects;

pub(crate) use chart::{Helm, RELEASE, Started};
pub(crate) use deployed::Deployed;
use serde_json::json;

use crate::support::{MEMCACHED, POD_SET, TestEnv};

/// A namespace in which pods can be made: until it has a ServiceAccount, they are refused.
pub(crate) async fn create_namespace(stage: &TestEnv, name: &str) {
    stage.kubectl(&["create", "namespace", name]).await.unwrap();
    let within = format!("--namespace={name}");
    let created = ["wait", "--for=create", "serviceaccount/default", &within, "--timeout=60s"];
    stage.kubectl(&created).await.unwrap();
}

/// Has the manager make a PodSet and a Memcached, both of which work in any cluster.
async fn until_it_works(stage: &TestEnv, namespace: &str, name: &str) {
    stage.create(&POD_SET, namespace, name, json!({ "replicas": 1 })).await;
    stage.create(&MEMCACHED, namespace, name, json!({ "size": 1 })).await;
    stage.until_ready(&POD_SET, namespace, name).await;
    stage.until_ready(&MEMCACHED, namespace, name).await;
}
