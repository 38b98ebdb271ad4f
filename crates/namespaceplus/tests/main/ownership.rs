//! Ownership of the namespace.

use kube::{Api, ResourceExt, api::PostParams};
use namespaceplus::{ADOPT_KEY, MANAGED_KEY, NamespacePlus, OWNER_KEY};
use serde_json::json;

use crate::support::{World, condition, merge, plus, version};

#[tokio::test]
async fn a_strangers_namespace_is_never_touched() {
    let world = World::new().await;
    let stranger = world.stranger(json!({})).await;
    world.create(json!({"labels": {"team": "blue"}, "deletionPolicy": "Delete"})).await;
    let message = world.until_false("NamespaceReady", "NotOwned").await;
    assert!(message.contains("was not created by this NamespacePlus"), "{message}");
    assert!(message.contains(&format!("{ADOPT_KEY}={}/{}", world.home.name(), world.name)), "{message}");
    let object = world.all().get(&world.name).await.unwrap();
    assert_eq!(condition(&object, "Ready").unwrap().1, "NotOwned");
    assert_eq!(object.status.unwrap().namespace, None);
    world.all().delete(&world.name, &kube::api::DeleteParams::default()).await.unwrap();
    world.until_gone().await;
    let writes = world.harness.requests().unwrap().writes();
    let writes = writes.filter(|entry| entry.name == world.name && entry.resource == "namespaces");
    assert_eq!(writes.entries, []);
    assert_eq!(version(&stranger).0, world.namespace().await.uid());
    assert_eq!(world.namespace().await.metadata.deletion_timestamp, None);
}

#[tokio::test]
async fn an_administrator_can_hand_a_namespace_over() {
    let world = World::new().await;
    world.stranger(json!({"theirs": "x"})).await;
    world.create(json!({"labels": {"team": "blue"}})).await;
    world.until_false("NamespaceReady", "NotOwned").await;
    let place = format!("{}/{}", world.home.name(), world.name);
    let note = format!("{ADOPT_KEY}={place}");
    world.kubectl(&["annotate", "namespace", &world.name, &note]).await.unwrap();
    let object = world.until_ready().await;
    let namespace = world.namespace().await;
    let mark = format!("{place}/{}", object.uid().unwrap());
    assert_eq!(namespace.annotations()[OWNER_KEY], mark);
    assert_eq!(namespace.annotations()["theirs"], "x");
    assert_eq!(namespace.labels()["team"], "blue");
    assert!(
        !namespace.labels().contains_key("app.kubernetes.io/managed-by"),
        "the labels of an adopted namespace stay"
    );
}

#[tokio::test]
async fn an_annotation_for_another_hands_nothing_over() {
    let world = World::new().await;
    world.stranger(json!({ADOPT_KEY: format!("elsewhere/{}", world.name)})).await;
    world.create(json!({})).await;
    world.until_false("NamespaceReady", "NotOwned").await;
}

#[tokio::test]
async fn the_managers_own_namespace_is_refused() {
    let world = World::new().await;
    let all = Api::<NamespacePlus>::namespaced(world.client.clone(), &world.home);
    all.create(&PostParams::default(), &plus("ensemble-system", json!({}))).await.unwrap();
    let message = cluster::wait::eventually("the refusal", crate::support::PATIENCE, async || {
        let told = condition(&all.get("ensemble-system").await?, "NamespaceReady");
        Ok(told.filter(|(_, reason, _)| reason == "Refused").map(|(_, _, message)| message))
    });
    let message = message.await.unwrap();
    assert!(message.contains("the manager's own namespace"), "{message}");
    let writes = world.harness.requests().unwrap().writes();
    let writes = writes.filter(|entry| entry.resource == "namespaces" && entry.name == "ensemble-system");
    assert_eq!(writes.entries, []);
}

#[tokio::test]
async fn of_two_of_one_name_the_first_keeps_it_and_the_second_gets_it_after_that() {
    let world = World::new().await;
    world.ready(json!({})).await;
    let second = World::new().await;
    let second = World { name: world.name.clone(), ..second };
    second.create(json!({"quota": {"pods": 7}})).await;
    let message = second.until_false("NamespaceReady", "TakenBy").await;
    assert!(
        message.contains(&format!("belongs to the NamespacePlus {}/{}", world.home.name(), world.name)),
        "{message}"
    );

    world.change(json!({"deletionPolicy": "Delete"})).await;
    world.all().delete(&world.name, &kube::api::DeleteParams::default()).await.unwrap();
    let object = second.until_ready().await;
    let mark = format!("{}/{}/{}", second.home.name(), second.name, object.uid().unwrap());
    assert_eq!(second.namespace().await.annotations()[OWNER_KEY], mark);
    world.until_gone().await;
}

#[tokio::test]
async fn after_a_release_the_second_needs_an_administrator_and_takes_over_what_is_inside() {
    let world = World::new().await;
    world.ready(json!({"networkPolicies": [{"name": "net", "spec": {}}]})).await;
    let second = World::new().await;
    let second = World { name: world.name.clone(), ..second };
    second.create(json!({"quota": {"pods": 7}})).await;
    second.until_false("NamespaceReady", "TakenBy").await;
    world.all().delete(&world.name, &kube::api::DeleteParams::default()).await.unwrap();
    second.until_false("NamespaceReady", "NotOwned").await;
    let place = format!("{}/{}", second.home.name(), second.name);
    merge(&second.namespaces(), &second.name, json!({"metadata": {"annotations": {ADOPT_KEY: place}}})).await;
    second.until_ready().await;
    let quotas = second.inside::<k8s_openapi::api::core::v1::ResourceQuota>();
    let quota = quotas.get("default-quota").await.unwrap();
    assert_eq!(quota.spec.unwrap().hard.unwrap()["pods"].0, "7");
    let policies = second.inside::<k8s_openapi::api::networking::v1::NetworkPolicy>();
    assert!(policies.get_opt("net").await.unwrap().is_none(), "objects of the first owner are deleted");
}

#[tokio::test]
async fn a_mark_of_an_earlier_incarnation_needs_an_administrator() {
    let world = World::new().await;
    let place = format!("{}/{}", world.home.name(), world.name);
    let stranger = world.stranger(json!({OWNER_KEY: format!("{place}/00000000")})).await;
    world.create(json!({})).await;
    let message = world.until_false("NamespaceReady", "NotOwned").await;
    assert!(message.contains("a deleted NamespacePlus"), "{message}");
    assert_eq!(world.namespace().await.annotations(), stranger.annotations());
}

#[tokio::test]
async fn labels_and_annotations_are_kept_as_declared_and_those_of_others_stay() {
    let world = World::new().await;
    world.ready(json!({"labels": {"team": "blue", "tier": "1"}, "annotations": {"contact": "ada"}})).await;
    let theirs =
        json!({"metadata": {"labels": {"theirs": "x", "team": "hacked"}, "annotations": {"contact": null}}});
    merge(&world.namespaces(), &world.name, theirs).await;
    cluster::wait::eventually("the metadata to be restored", crate::support::PATIENCE, async || {
        let namespace = world.namespaces().get(&world.name).await?;
        let labels = namespace.labels();
        Ok(labels["team"] == "blue"
            && labels["theirs"] == "x"
            && namespace.annotations().contains_key("contact"))
    })
    .await
    .unwrap();
    world.change(json!({"labels": {"tier": null}, "annotations": {"contact": null}})).await;
    world.until_ready().await;
    let namespace = world.namespace().await;
    assert_eq!(namespace.labels().get("tier"), None);
    assert_eq!(namespace.annotations().get("contact"), None);
    assert_eq!(namespace.annotations()[MANAGED_KEY], r#"{"labels":["team"]}"#);
    assert_eq!(namespace.labels()["theirs"], "x");
}

#[tokio::test]
async fn a_namespace_that_the_api_server_does_not_take_is_told_in_its_words() {
    let world = World::new().await;
    let too_long = json!({"long": "x".repeat(300 << 10)});
    world.create(json!({"annotations": too_long})).await;
    let message = world.until_false("NamespaceReady", "Refused").await;
    assert!(message.contains("cannot create Namespace") && message.contains("Too long"), "{message}");
    let object = world.all().get(&world.name).await.unwrap();
    assert_eq!(condition(&object, "QuotaReady").unwrap().1, "NamespaceNotReady");
    world.change(json!({"annotations": {"long": "x"}})).await;
    world.until_ready().await;

    world.change(json!({"annotations": too_long, "quota": {"pods": 3}})).await;
    let message = world.until_false("NamespaceReady", "Refused").await;
    assert!(message.contains("cannot update Namespace"), "{message}");
    let quotas = world.inside::<k8s_openapi::api::core::v1::ResourceQuota>();
    let quota = quotas.get("default-quota").await.unwrap();
    assert_eq!(
        quota.spec.unwrap().hard.unwrap()["pods"].0,
        "3",
        "the objects in the namespace are reconciled"
    );
}
