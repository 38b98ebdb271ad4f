//! Ownership of the namespace.

use kube::{Api, ResourceExt, api::PostParams};
use namespaceplus::{ADOPT_KEY, MANAGED_KEY, NamespacePlus, OWNER_KEY};
use serde_json::json;

use crate::support::{TestEnv, condition, merge, namespace_plus, version};

#[tokio::test]
async fn never_touches_foreign_namespace() {
    let env = TestEnv::new().await;
    let foreign_namespace = env.foreign_namespace(json!({})).await;
    env.create(json!({"labels": {"team": "blue"}, "deletionPolicy": "Delete"})).await;
    let message = env.until_false("NamespaceReady", "NotOwned").await;
    assert!(message.contains("was not created by this NamespacePlus"), "{message}");
    assert!(message.contains(&format!("{ADOPT_KEY}={}/{}", env.home.name(), env.name)), "{message}");
    let object = env.all().get(&env.name).await.unwrap();
    assert_eq!(condition(&object, "Ready").unwrap().1, "NotOwned");
    assert_eq!(object.status.unwrap().namespace, None);
    env.all().delete(&env.name, &kube::api::DeleteParams::default()).await.unwrap();
    env.until_deleted().await;
    let writes = env.harness.requests().unwrap().writes();
    let writes = writes.filter(|entry| entry.name == env.name && entry.resource == "namespaces");
    assert_eq!(writes.entries, []);
    assert_eq!(version(&foreign_namespace).0, env.namespace().await.uid());
    assert_eq!(env.namespace().await.metadata.deletion_timestamp, None);
}

#[tokio::test]
async fn adopts_namespace_with_annotation() {
    let env = TestEnv::new().await;
    env.foreign_namespace(json!({"theirs": "x"})).await;
    env.create(json!({"labels": {"team": "blue"}})).await;
    env.until_false("NamespaceReady", "NotOwned").await;
    let key = format!("{}/{}", env.home.name(), env.name);
    let note = format!("{ADOPT_KEY}={key}");
    env.kubectl(&["annotate", "namespace", &env.name, &note]).await.unwrap();
    let object = env.until_ready().await;
    let namespace = env.namespace().await;
    let owner_annotation = format!("{key}/{}", object.uid().unwrap());
    assert_eq!(namespace.annotations()[OWNER_KEY], owner_annotation);
    assert_eq!(namespace.annotations()["theirs"], "x");
    assert_eq!(namespace.labels()["team"], "blue");
    assert!(
        !namespace.labels().contains_key("app.kubernetes.io/managed-by"),
        "the labels of an adopted namespace stay"
    );
}

#[tokio::test]
async fn ignores_adoption_annotation_for_another() {
    let env = TestEnv::new().await;
    env.foreign_namespace(json!({ADOPT_KEY: format!("elsewhere/{}", env.name)})).await;
    env.create(json!({})).await;
    env.until_false("NamespaceReady", "NotOwned").await;
}

#[tokio::test]
async fn rejects_namespace_of_the_manager() {
    let env = TestEnv::new().await;
    let all = Api::<NamespacePlus>::namespaced(env.client.clone(), &env.home);
    all.create(&PostParams::default(), &namespace_plus("ensemble-system", json!({}))).await.unwrap();
    let message = cluster::wait::eventually("the refusal", crate::support::TIMEOUT, async || {
        let statuses = condition(&all.get("ensemble-system").await?, "NamespaceReady");
        Ok(statuses.filter(|(_, reason, _)| reason == "Denied").map(|(_, _, message)| message))
    });
    let message = message.await.unwrap();
    assert!(message.contains("the manager's own namespace"), "{message}");
    let writes = env.harness.requests().unwrap().writes();
    let writes = writes.filter(|entry| entry.resource == "namespaces" && entry.name == "ensemble-system");
    assert_eq!(writes.entries, []);
}

#[tokio::test]
async fn second_of_same_name_waits_for_the_first() {
    let env = TestEnv::new().await;
    env.ready(json!({})).await;
    let second = TestEnv::new().await;
    let second = TestEnv { name: env.name.clone(), ..second };
    second.create(json!({"quota": {"pods": 7}})).await;
    let message = second.until_false("NamespaceReady", "OwnedByAnother").await;
    assert!(
        message.contains(&format!("belongs to the NamespacePlus {}/{}", env.home.name(), env.name)),
        "{message}"
    );

    env.change(json!({"deletionPolicy": "Delete"})).await;
    env.all().delete(&env.name, &kube::api::DeleteParams::default()).await.unwrap();
    let object = second.until_ready().await;
    let owner_annotation = format!("{}/{}/{}", second.home.name(), second.name, object.uid().unwrap());
    assert_eq!(second.namespace().await.annotations()[OWNER_KEY], owner_annotation);
    env.until_deleted().await;
}

#[tokio::test]
async fn second_adopts_released_namespace_with_contents() {
    let env = TestEnv::new().await;
    env.ready(json!({"networkPolicies": [{"name": "net", "spec": {}}]})).await;
    let second = TestEnv::new().await;
    let second = TestEnv { name: env.name.clone(), ..second };
    second.create(json!({"quota": {"pods": 7}})).await;
    second.until_false("NamespaceReady", "OwnedByAnother").await;
    env.all().delete(&env.name, &kube::api::DeleteParams::default()).await.unwrap();
    second.until_false("NamespaceReady", "NotOwned").await;
    let key = format!("{}/{}", second.home.name(), second.name);
    merge(&second.namespaces(), &second.name, json!({"metadata": {"annotations": {ADOPT_KEY: key}}})).await;
    second.until_ready().await;
    let quotas = second.inside::<k8s_openapi::api::core::v1::ResourceQuota>();
    let quota = quotas.get("default-quota").await.unwrap();
    assert_eq!(quota.spec.unwrap().hard.unwrap()["pods"].0, "7");
    let policies = second.inside::<k8s_openapi::api::networking::v1::NetworkPolicy>();
    assert!(policies.get_opt("net").await.unwrap().is_none(), "objects of the first owner are deleted");
}

#[tokio::test]
async fn never_takes_over_namespace_of_deleted_owner_with_other_uid() {
    let env = TestEnv::new().await;
    let key = format!("{}/{}", env.home.name(), env.name);
    let foreign_namespace = env.foreign_namespace(json!({OWNER_KEY: format!("{key}/00000000")})).await;
    env.create(json!({})).await;
    let message = env.until_false("NamespaceReady", "NotOwned").await;
    assert!(message.contains("a deleted NamespacePlus"), "{message}");
    assert_eq!(env.namespace().await.annotations(), foreign_namespace.annotations());
}

#[tokio::test]
async fn reverts_drift_of_labels_and_annotations_and_keeps_foreign_ones() {
    let env = TestEnv::new().await;
    env.ready(json!({"labels": {"team": "blue", "tier": "1"}, "annotations": {"contact": "ada"}})).await;
    let theirs =
        json!({"metadata": {"labels": {"theirs": "x", "team": "hacked"}, "annotations": {"contact": null}}});
    merge(&env.namespaces(), &env.name, theirs).await;
    cluster::wait::eventually("the metadata to be restored", crate::support::TIMEOUT, async || {
        let namespace = env.namespaces().get(&env.name).await?;
        let labels = namespace.labels();
        Ok(labels["team"] == "blue"
            && labels["theirs"] == "x"
            && namespace.annotations().contains_key("contact"))
    })
    .await
    .unwrap();
    env.change(json!({"labels": {"tier": null}, "annotations": {"contact": null}})).await;
    env.until_ready().await;
    let namespace = env.namespace().await;
    assert_eq!(namespace.labels().get("tier"), None);
    assert_eq!(namespace.annotations().get("contact"), None);
    assert_eq!(namespace.annotations()[MANAGED_KEY], r#"{"labels":["team"]}"#);
    assert_eq!(namespace.labels()["theirs"], "x");
}

#[tokio::test]
async fn reports_denied_writes_of_namespace() {
    let env = TestEnv::new().await;
    let too_long = json!({"long": "x".repeat(300 << 10)});
    env.create(json!({"annotations": too_long})).await;
    let message = env.until_false("NamespaceReady", "Denied").await;
    assert!(message.contains("cannot create Namespace") && message.contains("Too long"), "{message}");
    let object = env.all().get(&env.name).await.unwrap();
    assert_eq!(condition(&object, "QuotaReady").unwrap().1, "NamespaceNotReady");
    env.change(json!({"annotations": {"long": "x"}})).await;
    env.until_ready().await;

    env.change(json!({"annotations": too_long, "quota": {"pods": 3}})).await;
    let message = env.until_false("NamespaceReady", "Denied").await;
    assert!(message.contains("cannot update Namespace"), "{message}");
    let quotas = env.inside::<k8s_openapi::api::core::v1::ResourceQuota>();
    let quota = quotas.get("default-quota").await.unwrap();
    assert_eq!(
        quota.spec.unwrap().hard.unwrap()["pods"].0,
        "3",
        "the objects in the namespace are reconciled"
    );
}
