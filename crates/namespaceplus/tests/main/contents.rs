//! The objects in the namespace.

use cluster::wait::eventually;
use k8s_openapi::api::{
    core::v1::{LimitRange, Pod, ResourceQuota},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::RoleBinding,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, condition, version};

/// A spec with all kinds of objects.
pub(crate) fn everything() -> Value {
    json!({
        "quota": {"pods": 10, "requests.memory": "1024Mi"},
        "limitRange": {"limits": [{"type": "Container", "max": {"cpu": "1000m"}, "min": {"memory": "64Mi"}}]},
        "networkPolicies": [{"name": "dns", "spec": {"egress": [{"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]}]}}],
        "podDisruptionBudgets": [{"name": "web", "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}],
        "roleBindings": [{"name": "editors", "clusterRole": "edit", "subjects": [
            {"kind": "Group", "name": "blue"}, {"kind": "ServiceAccount", "name": "robot", "namespace": "ci"}]}],
    })
}

#[tokio::test]
async fn everything_declared_is_made() {
    let world = World::new().await;
    world.ready(everything()).await;
    let quota = world.inside::<ResourceQuota>().get("default-quota").await.unwrap();
    assert_eq!(quota.spec.unwrap().hard.unwrap()["requests.memory"].0, "1Gi");
    let limits = world.inside::<LimitRange>().get("default-limits").await.unwrap();
    assert_eq!(limits.spec.unwrap().limits[0].max.as_ref().unwrap()["cpu"].0, "1");
    let policy = world.inside::<NetworkPolicy>().get("dns").await.unwrap();
    assert_eq!(policy.spec.unwrap().policy_types.unwrap(), ["Ingress", "Egress"]);
    world.inside::<PodDisruptionBudget>().get("web").await.unwrap();
    let binding = world.inside::<RoleBinding>().get("editors").await.unwrap();
    assert_eq!(binding.role_ref.name, "edit");
}

#[tokio::test]
async fn what_is_deleted_comes_back() {
    let world = World::new().await;
    world.ready(everything()).await;
    let quotas = world.inside::<ResourceQuota>();
    let before = quotas.get("default-quota").await.unwrap().uid();
    quotas.delete("default-quota", &DeleteParams::default()).await.unwrap();
    eventually("the quota to be recreated", PATIENCE, async || {
        Ok(quotas.get_opt("default-quota").await?.is_some_and(|quota| quota.uid() != before))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn what_is_no_longer_declared_goes_and_what_others_made_stays() {
    let world = World::new().await;
    world.ready(everything()).await;
    let theirs = serde_json::from_value(json!({"metadata": {"name": "theirs"}, "spec": {"podSelector": {}}}));
    world.inside::<NetworkPolicy>().create(&PostParams::default(), &theirs.unwrap()).await.unwrap();
    world
        .change(json!({"quota": {"pods": null, "requests.memory": null}, "limitRange": null, "networkPolicies": null,
            "podDisruptionBudgets": null, "roleBindings": null}))
        .await;
    world.until_ready().await;
    let all = ListParams::default();
    let policies = world.inside::<NetworkPolicy>().list(&all).await.unwrap().items;
    assert_eq!(policies.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["theirs"]);
    assert_eq!(world.inside::<ResourceQuota>().list(&all).await.unwrap().items.len(), 0);
    assert_eq!(world.inside::<LimitRange>().list(&all).await.unwrap().items.len(), 0);
    assert_eq!(world.inside::<PodDisruptionBudget>().list(&all).await.unwrap().items.len(), 0);
    assert_eq!(world.inside::<RoleBinding>().list(&all).await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn a_binding_gets_another_role_though_a_role_cannot_be_changed() {
    let world = World::new().await;
    world.ready(everything()).await;
    let view =
        json!([{"name": "editors", "clusterRole": "view", "subjects": [{"kind": "User", "name": "ada"}]}]);
    world.change(json!({"roleBindings": view})).await;
    world.until_ready().await;
    let binding = world.inside::<RoleBinding>().get("editors").await.unwrap();
    assert_eq!((binding.role_ref.name.as_str(), binding.subjects.unwrap().len()), ("view", 1));
}

#[tokio::test]
async fn a_role_that_the_manager_may_not_give_is_told_and_stops_nothing_else() {
    let world = World::new().await;
    let user = json!([{"kind": "User", "name": "ada"}]);
    world
        .create(json!({"roleBindings": [
            {"name": "a-root", "clusterRole": "cluster-admin", "subjects": user},
            {"name": "b-view", "clusterRole": "view", "subjects": user},
        ]}))
        .await;
    let message = world.until_false("AccessReady", "Refused").await;
    assert!(message.contains("cannot create RoleBinding") && message.contains("a-root"), "{message}");
    assert!(message.contains("attempting to grant RBAC permissions not currently held"), "{message}");
    assert!(message.contains("the verb bind on the role"), "{message}");
    world.inside::<RoleBinding>().get("b-view").await.unwrap();
    let object = world.all().get(&world.name).await.unwrap();
    for (type_, status) in [("QuotaReady", "True"), ("PoliciesReady", "True"), ("Ready", "False")] {
        assert_eq!(condition(&object, type_).unwrap().0, status, "{type_}");
    }
    let rest = json!([{"name": "b-view", "clusterRole": "view", "subjects": user}]);
    world.change(json!({"roleBindings": rest})).await;
    world.until_ready().await;
}

#[tokio::test]
async fn a_binding_gives_its_rights_in_the_namespace_and_nowhere_else() {
    let world = World::new().await;
    let ada = format!("ada-{}", world.name);
    let subjects = json!([{"kind": "User", "name": ada}]);
    world
        .ready(json!({"roleBindings": [{"name": "onlookers", "clusterRole": "view", "subjects": subjects}]}))
        .await;
    let client = world.harness.cluster.client_as(&ada, &["system:authenticated"]).await.unwrap();
    let pods = kube::Api::<Pod>::namespaced(client.clone(), &world.name);
    eventually("the permission to take effect", PATIENCE, async || {
        Ok(pods.list(&ListParams::default()).await.is_ok())
    })
    .await
    .unwrap();
    let elsewhere = kube::Api::<Pod>::namespaced(client, &world.home);
    assert!(elsewhere.list(&ListParams::default()).await.is_err());
}

#[tokio::test]
async fn what_the_api_server_cannot_take_is_told_in_its_words_and_healed_from() {
    let world = World::new().await;
    let bad =
        json!([{"name": "net", "spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/99"}}]}]}}]);
    world.create(json!({"quota": {"pods": "1500m"}, "networkPolicies": bad})).await;
    let quota = world.until_false("QuotaReady", "Refused").await;
    assert!(quota.contains("must be an integer"), "{quota}");
    let policies = world.until_false("PoliciesReady", "Refused").await;
    assert!(policies.contains("10.0.0.0/99"), "{policies}");
    let good =
        json!([{"name": "net", "spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}}]);
    world.change(json!({"quota": {"pods": 2}, "networkPolicies": good})).await;
    world.until_ready().await;
}

#[tokio::test]
async fn what_the_schema_lets_through_and_nobody_can_read_is_told_and_stops_no_other() {
    let world = World::new().await;
    let bad = json!([{"name": "net", "spec": {"ingress": [{"ports": [{"port": 99_999_999_999_i64}]}]}}]);
    world.create(json!({"networkPolicies": bad})).await;
    let message = world.until_false("PoliciesReady", "Invalid").await;
    assert!(message.starts_with("NetworkPolicy net is invalid"), "{message}");
    World::new().await.ready(json!({})).await;
}

#[tokio::test]
async fn an_object_of_the_name_that_somebody_else_made_is_left_alone() {
    let world = World::new().await;
    world.ready(json!({})).await;
    let policies = world.inside::<NetworkPolicy>();
    let theirs = serde_json::from_value(json!({"metadata": {"name": "net"}, "spec": {"podSelector": {}}}));
    let theirs = policies.create(&PostParams::default(), &theirs.unwrap()).await.unwrap();
    world.change(json!({"networkPolicies": [{"name": "net", "spec": {"policyTypes": ["Egress"]}}]})).await;
    let message = world.until_false("PoliciesReady", "NameTaken").await;
    assert!(message.contains("is not ours"), "{message}");
    assert_eq!(version(&policies.get("net").await.unwrap()), version(&theirs));
}
