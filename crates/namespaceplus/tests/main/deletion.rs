//! Deletion of a NamespacePlus.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use namespaceplus::{ADOPT_KEY, FINALIZER, MANAGED_KEY, NamespacePlus, OWNER_KEY};
use serde_json::json;

use crate::support::{TIMEOUT, TestEnv, merge, namespace_plus, version};

#[tokio::test]
async fn retain_keeps_namespace_and_contents() {
    let env = TestEnv::new().await;
    let object = env.ready(json!({"labels": {"team": "blue"}})).await;
    assert_eq!(object.finalizers(), [FINALIZER]);
    let quota = version(&env.inside::<ResourceQuota>().get("default-quota").await.unwrap()).0;
    env.all().delete(&env.name, &DeleteParams::default()).await.unwrap();
    env.until_deleted().await;
    let namespace = env.namespace().await;
    assert_eq!(namespace.metadata.deletion_timestamp, None);
    assert_eq!(namespace.labels()["team"], "blue");
    assert_eq!(namespace.labels().get("app.kubernetes.io/managed-by"), None);
    assert_eq!(
        (namespace.annotations().get(OWNER_KEY), namespace.annotations().get(MANAGED_KEY)),
        (None, None)
    );
    assert_eq!(env.inside::<ResourceQuota>().get("default-quota").await.unwrap().uid(), quota);

    env.create(json!({})).await;
    env.until_false("NamespaceReady", "NotOwned").await;
}

#[tokio::test]
async fn delete_removes_namespace_and_waits_for_it() {
    let env = TestEnv::new().await;
    env.ready(json!({"deletionPolicy": "Delete"})).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    let held = serde_json::from_value(held).unwrap();
    env.inside::<ConfigMap>().create(&PostParams::default(), &held).await.unwrap();
    env.all().delete(&env.name, &DeleteParams::default()).await.unwrap();
    let statuses = env.until("the status to report what blocks the deletion", |object| {
        crate::support::condition(object, "NamespaceReady").is_some_and(|(_, reason, message)| {
            reason == "Terminating" && message.contains("example.com/hold")
        })
    });
    assert_eq!(statuses.await.finalizers(), [FINALIZER]);
    merge(&env.inside::<ConfigMap>(), "held", json!({"metadata": {"finalizers": null}})).await;
    env.until_deleted().await;
    assert!(env.namespaces().get_opt(&env.name).await.unwrap().is_none());
}

#[tokio::test]
async fn delete_removes_adopted_namespace() {
    let env = TestEnv::new().await;
    let key = format!("{}/{}", env.home.name(), env.name);
    env.foreign_namespace(json!({ADOPT_KEY: key})).await;
    env.ready(json!({"deletionPolicy": "Delete"})).await;
    env.all().delete(&env.name, &DeleteParams::default()).await.unwrap();
    env.until_deleted().await;
    env.until_namespace_is_deleted().await;
}

#[tokio::test]
async fn recreates_deleted_namespace() {
    let env = TestEnv::new().await;
    env.ready(json!({})).await;
    let before = env.namespace().await.uid();
    env.namespaces().delete(&env.name, &DeleteParams::default()).await.unwrap();
    eventually("the namespace to be recreated", 2 * TIMEOUT, async || {
        let namespace = env.namespaces().get_opt(&env.name).await?;
        Ok(namespace.is_some_and(|namespace| namespace.uid() != before))
    })
    .await
    .unwrap();
    env.until_ready().await;
    env.inside::<ResourceQuota>().get("default-quota").await.unwrap();
}

#[tokio::test]
async fn object_in_its_own_namespace_does_not_block_deletion() {
    let env = TestEnv::new().await;
    let home = env.home.name();
    let own = Api::<NamespacePlus>::namespaced(env.client.clone(), home);
    merge(
        &env.namespaces(),
        home,
        json!({"metadata": {"annotations": {ADOPT_KEY: format!("{home}/{home}")}}}),
    )
    .await;
    own.create(&PostParams::default(), &namespace_plus(home, json!({"deletionPolicy": "Delete"})))
        .await
        .unwrap();
    let env = TestEnv { name: home.to_owned(), ..env };
    env.until_ready().await;
    own.delete(&env.name, &DeleteParams::default()).await.unwrap();
    env.until_namespace_is_deleted().await;
}
