//! Deletion of a NamespacePlus.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use namespaceplus::{ADOPT_KEY, FINALIZER, MANAGED_KEY, NamespacePlus, OWNER_KEY};
use serde_json::json;

use crate::support::{PATIENCE, World, merge, plus, version};

#[tokio::test]
async fn retain_leaves_the_namespace_with_all_that_is_in_it() {
    let world = World::new().await;
    let object = world.ready(json!({"labels": {"team": "blue"}})).await;
    assert_eq!(object.finalizers(), [FINALIZER]);
    let quota = version(&world.inside::<ResourceQuota>().get("default-quota").await.unwrap()).0;
    world.all().delete(&world.name, &DeleteParams::default()).await.unwrap();
    world.until_gone().await;
    let namespace = world.namespace().await;
    assert_eq!(namespace.metadata.deletion_timestamp, None);
    assert_eq!(namespace.labels()["team"], "blue");
    assert_eq!(namespace.labels().get("app.kubernetes.io/managed-by"), None);
    assert_eq!(
        (namespace.annotations().get(OWNER_KEY), namespace.annotations().get(MANAGED_KEY)),
        (None, None)
    );
    assert_eq!(world.inside::<ResourceQuota>().get("default-quota").await.unwrap().uid(), quota);

    world.create(json!({})).await;
    world.until_false("NamespaceReady", "NotOwned").await;
}

#[tokio::test]
async fn delete_takes_the_namespace_along_and_waits_until_it_is_gone() {
    let world = World::new().await;
    world.ready(json!({"deletionPolicy": "Delete"})).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    let held = serde_json::from_value(held).unwrap();
    world.inside::<ConfigMap>().create(&PostParams::default(), &held).await.unwrap();
    world.all().delete(&world.name, &DeleteParams::default()).await.unwrap();
    let told = world.until("the status to report what blocks the deletion", |object| {
        crate::support::condition(object, "NamespaceReady").is_some_and(|(_, reason, message)| {
            reason == "Terminating" && message.contains("example.com/hold")
        })
    });
    assert_eq!(told.await.finalizers(), [FINALIZER]);
    merge(&world.inside::<ConfigMap>(), "held", json!({"metadata": {"finalizers": null}})).await;
    world.until_gone().await;
    assert!(world.namespaces().get_opt(&world.name).await.unwrap().is_none());
}

#[tokio::test]
async fn an_adopted_namespace_is_deleted_too_if_the_spec_says_so() {
    let world = World::new().await;
    let place = format!("{}/{}", world.home.name(), world.name);
    world.stranger(json!({ADOPT_KEY: place})).await;
    world.ready(json!({"deletionPolicy": "Delete"})).await;
    world.all().delete(&world.name, &DeleteParams::default()).await.unwrap();
    world.until_gone().await;
    world.until_namespace_is_gone().await;
}

#[tokio::test]
async fn a_namespace_that_somebody_deletes_is_made_again() {
    let world = World::new().await;
    world.ready(json!({})).await;
    let before = world.namespace().await.uid();
    world.namespaces().delete(&world.name, &DeleteParams::default()).await.unwrap();
    eventually("the namespace to be recreated", 2 * PATIENCE, async || {
        let namespace = world.namespaces().get_opt(&world.name).await?;
        Ok(namespace.is_some_and(|namespace| namespace.uid() != before))
    })
    .await
    .unwrap();
    world.until_ready().await;
    world.inside::<ResourceQuota>().get("default-quota").await.unwrap();
}

#[tokio::test]
async fn one_that_sits_in_its_own_namespace_does_not_wait_for_itself() {
    let world = World::new().await;
    let home = world.home.name();
    let own = Api::<NamespacePlus>::namespaced(world.client.clone(), home);
    merge(
        &world.namespaces(),
        home,
        json!({"metadata": {"annotations": {ADOPT_KEY: format!("{home}/{home}")}}}),
    )
    .await;
    own.create(&PostParams::default(), &plus(home, json!({"deletionPolicy": "Delete"}))).await.unwrap();
    let world = World { name: home.to_owned(), ..world };
    world.until_ready().await;
    own.delete(&world.name, &DeleteParams::default()).await.unwrap();
    world.until_namespace_is_gone().await;
}
