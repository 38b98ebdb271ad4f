//! A ReplicaSet whose selector matches the Pods of a PodSet.

use std::collections::BTreeMap;

use cluster::wait::eventually;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

use crate::support::{TIMEOUT, TestEnv, orphan};

fn replica_sets(env: &TestEnv) -> Api<ReplicaSet> {
    Api::namespaced(env.client.clone(), &env.namespace)
}

/// Creates a ReplicaSet and a PodSet with two Pods each and the same labels.
async fn create_both() -> TestEnv {
    let env = TestEnv::new().await;
    let labels = json!({"app": "web", "version": "v0.1"});
    let replica_set = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }));
    replica_sets(&env).create(&PostParams::default(), &replica_set.unwrap()).await.unwrap();
    env.create("web", json!({"replicas": 2})).await;
    env.until_ready("web", 2).await;
    until_owned(&env, &[("PodSet", 2), ("ReplicaSet", 2)]).await;
    env
}

/// Waits until the Pods of the namespace have these controllers.
async fn until_owned(env: &TestEnv, expected: &[(&str, usize)]) {
    let expected = expected.iter().map(|(kind, pods)| ((*kind).to_owned(), *pods)).collect();
    eventually(&format!("pods owned by {expected:?}"), TIMEOUT, async || {
        let mut owners = BTreeMap::<String, usize>::new();
        for pod in env.pods().list(&ListParams::default()).await?.items {
            *owners.entry(controller(&pod)).or_default() += 1;
        }
        Ok(if owners == expected { Ok(()) } else { Err(owners) })
    })
    .await
    .unwrap();
}

fn controller(pod: &Pod) -> String {
    let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    controller.map_or_else(|| "none".to_owned(), |owner| owner.kind.clone())
}

#[tokio::test]
async fn each_controller_keeps_its_own_pods() {
    let env = create_both().await;
    let deleted = env.pods().get("web-pod-1").await.unwrap();
    env.pods().delete("web-pod-1", &DeleteParams::default()).await.unwrap();
    eventually("the Pod to be deleted", TIMEOUT, async || {
        Ok(env.pods().get_opt("web-pod-1").await?.is_none_or(|pod| pod.uid() != deleted.uid()))
    })
    .await
    .unwrap();
    until_owned(&env, &[("PodSet", 2), ("ReplicaSet", 2)]).await;
    let touched = env.harness.requests_in(&env.namespace).unwrap().writes();
    let touched = touched.filter(|entry| entry.resource == "pods" && !entry.name.starts_with("web-pod-"));
    assert_eq!(touched.entries, [], "the PodSet controller writes no Pods of the ReplicaSet");
}

#[tokio::test]
async fn one_controller_adopts_an_orphan_without_errors() {
    let env = create_both().await;
    for number in 0..6 {
        let pod = orphan(&format!("stray-{number}"), "web");
        env.pods().create(&PostParams::default(), &pod).await.unwrap();
    }
    until_owned(&env, &[("PodSet", 2), ("ReplicaSet", 2)]).await;
    env.until_ready("web", 2).await;
    assert_eq!(env.events("FailedAdopt").await, [""; 0]);
    let requests = env.harness.requests_in(&env.namespace).unwrap();
    let patches = requests.filter(|entry| entry.verb == "patch" && entry.resource == "pods").entries;
    assert!(patches.iter().all(|entry| [200, 404, 409].contains(&entry.code)), "{patches:?}");
}

#[tokio::test]
async fn adopts_the_orphans_of_a_deleted_replica_set() {
    let env = create_both().await;
    let scale = ["scale", "podset", "web", "--replicas=4"];
    env.kubectl(&["delete", "replicaset", "web", "--cascade=orphan"]).await.unwrap();
    until_owned(&env, &[("PodSet", 2)]).await;
    env.kubectl(&scale).await.unwrap();
    env.until_ready("web", 4).await;
    until_owned(&env, &[("PodSet", 4)]).await;
}
