//! Deletion of a Memcached.

use cluster::wait::eventually;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use memcached::{FINALIZER, Memcached};
use serde_json::json;

use crate::support::{TIMEOUT, TestEnv};

#[tokio::test]
async fn deletes_child_objects_and_records_an_event() {
    let env = TestEnv::new().await;
    let cache = env.ready("web", 2).await;
    assert_eq!(cache.finalizers(), [FINALIZER]);
    env.caches().delete("web", &DeleteParams::default()).await.unwrap();
    env.until_gone::<Memcached>("web").await;
    env.until_gone::<Deployment>("web").await;
    env.until_gone::<Service>("web").await;
    env.until_gone::<PodDisruptionBudget>("web").await;
    eventually("an Event", TIMEOUT, async || {
        Ok(env.kubectl(&["get", "events", "--output=wide"]).await?.contains("are deleted with the Memcached"))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn never_readds_finalizer_to_terminating_object() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    let hold = |finalizers: serde_json::Value| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let params = PatchParams::default();
    env.caches().patch("web", &params, &hold(json!([FINALIZER, "example.com/hold"]))).await.unwrap();
    env.caches().delete("web", &DeleteParams::default()).await.unwrap();
    env.until("web", "only the other finalizer to remain", |cache: &Memcached| {
        cache.finalizers() == ["example.com/hold"]
    })
    .await;

    // A change of the spec triggers a reconcile. Another Memcached that becomes ready shows that it
    // ran.
    let size = Patch::Merge(json!({"spec": {"size": 2}}));
    env.caches().patch("web", &params, &size).await.unwrap();
    env.ready("other", 1).await;
    let cache = env.caches().get("web").await.unwrap();
    assert_eq!(cache.finalizers(), ["example.com/hold"]);
    let replicas = env.deployments().get("web").await.unwrap().spec.unwrap().replicas;
    assert_eq!(replicas, Some(1), "a terminating Memcached is not scaled");

    env.caches().patch("web", &params, &hold(json!(null))).await.unwrap();
    env.until_gone::<Memcached>("web").await;
    env.until_gone::<Deployment>("web").await;
}

#[tokio::test]
async fn recreated_object_waits_for_cleanup_of_its_predecessor() {
    let env = TestEnv::new().await;
    let old = env.ready("web", 1).await;
    env.caches().delete("web", &DeleteParams::default()).await.unwrap();
    env.until_gone::<Memcached>("web").await;
    env.create("web", json!({"size": 1})).await;
    let new = env.until_ready_after_another("web", 1).await;
    assert_ne!(old.uid(), new.uid());
    let owner = env.deployments().get("web").await.unwrap().owner_references()[0].uid.clone();
    assert_eq!(Some(owner), new.uid());
    let events = env.kubectl(&["get", "events"]).await.unwrap();
    assert!(!events.contains("NameConflict"), "{events}");
}

#[tokio::test]
async fn stops_writing_in_terminating_namespace() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    let namespaces = Api::<Namespace>::all(env.client.clone());
    namespaces.delete(&env.namespace, &DeleteParams::default()).await.unwrap();
    eventually("the namespace to be gone", 3 * TIMEOUT, async || {
        Ok(namespaces.get_opt(&env.namespace).await?.is_none())
    })
    .await
    .unwrap();
    let refused = env.harness.requests_in(&env.namespace).unwrap().filter(|entry| entry.code == 403);
    assert!(refused.entries.len() <= 10, "the controller kept retrying: {:?}", refused.entries);
}
