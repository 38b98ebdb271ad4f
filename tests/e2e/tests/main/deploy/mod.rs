//! What is in `deploy`, as it is installed: the API server takes all of it, its pods are admitted, and a manager that is
//! started as the Deployment says, with the rights that come along, does its work.

mod deployed;
mod helm;
mod kustomize;
mod objects;

use cluster::wait::eventually;
use deployed::Deployed;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::support::{Kind, MEMCACHED, PATIENCE, POD_SET, Stage};

/// A namespace in which pods can be made: until it has a ServiceAccount, they are refused.
async fn create_namespace(stage: &Stage, name: &str) {
    stage.kubectl(&["create", "namespace", name]).await.unwrap();
    let within = format!("--namespace={name}");
    let created = ["wait", "--for=create", "serviceaccount/default", &within, "--timeout=60s"];
    stage.kubectl(&created).await.unwrap();
}

/// Waits until the API server lets children block the deletion of owners of this kind: it does not for some seconds when the
/// kind is new.
async fn until_owners_are_known(stage: &Stage, kind: &Kind) {
    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client().await.unwrap(), "default");
    let child = json!({
        "metadata": { "name": "child", "ownerReferences": [{
            "apiVersion": kind.api_version(), "kind": kind.singular(), "name": "owner", "uid": "some",
            "blockOwnerDeletion": true,
        }] },
    });
    let child: ConfigMap = serde_json::from_value(child).unwrap();
    let try_only = PostParams { dry_run: true, ..PostParams::default() };
    eventually(&format!("owners of kind {} to be known", kind.singular()), PATIENCE, async || {
        maps.create(&try_only, &child).await?;
        Ok(true)
    })
    .await
    .unwrap();
}

/// Has the manager make a PodSet and a Memcached, both of which work in any cluster.
async fn until_it_works(stage: &Stage, namespace: &str, name: &str) {
    for kind in [POD_SET, MEMCACHED] {
        until_owners_are_known(stage, &kind).await;
    }
    stage.create(&POD_SET, namespace, name, json!({ "replicas": 1 })).await;
    stage.create(&MEMCACHED, namespace, name, json!({ "size": 1 })).await;
    stage.until_settled(&POD_SET, namespace, name).await;
    stage.until_settled(&MEMCACHED, namespace, name).await;
}
