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

use crate::support::{TIMEOUT, TestEnv, condition, version};

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
async fn creates_all_kinds_of_objects() {
    let env = TestEnv::new().await;
    env.ready(everything()).await;
    let quota = env.inside::<ResourceQuota>().get("default-quota").await.unwrap();
    assert_eq!(quota.spec.unwrap().hard.unwrap()["requests.memory"].0, "1Gi");
    let limits = env.inside::<LimitRange>().get("default-limits").await.unwrap();
    assert_eq!(limits.spec.unwrap().limits[0].max.as_ref().unwrap()["cpu"].0, "1");
    let policy = env.inside::<NetworkPolicy>().get("dns").await.unwrap();
    assert_eq!(policy.spec.unwrap().policy_types.unwrap(), ["Ingress", "Egress"]);
    env.inside::<PodDisruptionBudget>().get("web").await.unwrap();
    let binding = env.inside::<RoleBinding>().get("editors").await.unwrap();
    assert_eq!(binding.role_ref.name, "edit");
}

#[tokio::test]
async fn recreates_deleted_objects() {
    let env = TestEnv::new().await;
    env.ready(everything()).await;
    let quotas = env.inside::<ResourceQuota>();
    let before = quotas.get("default-quota").await.unwrap().uid();
    quotas.delete("default-quota", &DeleteParams::default()).await.unwrap();
    eventually("the quota to be recreated", TIMEOUT, async || {
        Ok(quotas.get_opt("default-quota").await?.is_some_and(|quota| quota.uid() != before))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn deletes_surplus_objects_and_keeps_foreign_ones() {
    let env = TestEnv::new().await;
    env.ready(everything()).await;
    let theirs = serde_json::from_value(json!({"metadata": {"name": "theirs"}, "spec": {"podSelector": {}}}));
    env.inside::<NetworkPolicy>().create(&PostParams::default(), &theirs.unwrap()).await.unwrap();
    env.change(
        json!({"quota": {"pods": null, "requests.memory": null}, "limitRange": null, "networkPolicies": null,
            "podDisruptionBudgets": null, "roleBindings": null}),
    )
    .await;
    env.until_ready().await;
    let all = ListParams::default();
    let policies = env.inside::<NetworkPolicy>().list(&all).await.unwrap().items;
    assert_eq!(policies.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["theirs"]);
    assert_eq!(env.inside::<ResourceQuota>().list(&all).await.unwrap().items.len(), 0);
    assert_eq!(env.inside::<LimitRange>().list(&all).await.unwrap().items.len(), 0);
    assert_eq!(env.inside::<PodDisruptionBudget>().list(&all).await.unwrap().items.len(), 0);
    assert_eq!(env.inside::<RoleBinding>().list(&all).await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn recreates_binding_for_another_role() {
    let env = TestEnv::new().await;
    env.ready(everything()).await;
    let view =
        json!([{"name": "editors", "clusterRole": "view", "subjects": [{"kind": "User", "name": "ada"}]}]);
    env.change(json!({"roleBindings": view})).await;
    env.until_ready().await;
    let binding = env.inside::<RoleBinding>().get("editors").await.unwrap();
    assert_eq!((binding.role_ref.name.as_str(), binding.subjects.unwrap().len()), ("view", 1));
}

#[tokio::test]
async fn reports_forbidden_role_and_reconciles_the_rest() {
    let env = TestEnv::new().await;
    let user = json!([{"kind": "User", "name": "ada"}]);
    env.create(json!({"roleBindings": [
        {"name": "a-root", "clusterRole": "cluster-admin", "subjects": user},
        {"name": "b-view", "clusterRole": "view", "subjects": user},
    ]}))
    .await;
    let message = env.until_false("AccessReady", "Denied").await;
    assert!(message.contains("cannot create RoleBinding") && message.contains("a-root"), "{message}");
    assert!(message.contains("attempting to grant RBAC permissions not currently held"), "{message}");
    assert!(message.contains("the verb bind on the role"), "{message}");
    env.inside::<RoleBinding>().get("b-view").await.unwrap();
    let object = env.all().get(&env.name).await.unwrap();
    for (type_, status) in [("QuotaReady", "True"), ("PoliciesReady", "True"), ("Ready", "False")] {
        assert_eq!(condition(&object, type_).unwrap().0, status, "{type_}");
    }
    let rest = json!([{"name": "b-view", "clusterRole": "view", "subjects": user}]);
    env.change(json!({"roleBindings": rest})).await;
    env.until_ready().await;
}

#[tokio::test]
async fn binding_grants_permissions_only_in_its_namespace() {
    let env = TestEnv::new().await;
    let ada = format!("ada-{}", env.name);
    let subjects = json!([{"kind": "User", "name": ada}]);
    env.ready(json!({"roleBindings": [{"name": "onlookers", "clusterRole": "view", "subjects": subjects}]}))
        .await;
    let client = env.harness.cluster.client_as(&ada, &["system:authenticated"]).await.unwrap();
    let pods = kube::Api::<Pod>::namespaced(client.clone(), &env.name);
    eventually("the permission to take effect", TIMEOUT, async || {
        Ok(pods.list(&ListParams::default()).await.is_ok())
    })
    .await
    .unwrap();
    let elsewhere = kube::Api::<Pod>::namespaced(client, &env.home);
    assert!(elsewhere.list(&ListParams::default()).await.is_err());
}

#[tokio::test]
async fn reports_rejected_objects_and_recovers() {
    let env = TestEnv::new().await;
    let bad =
        json!([{"name": "net", "spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/99"}}]}]}}]);
    env.create(json!({"quota": {"pods": "1500m"}, "networkPolicies": bad})).await;
    let quota = env.until_false("QuotaReady", "Denied").await;
    assert!(quota.contains("must be an integer"), "{quota}");
    let policies = env.until_false("PoliciesReady", "Denied").await;
    assert!(policies.contains("10.0.0.0/99"), "{policies}");
    let good =
        json!([{"name": "net", "spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}}]);
    env.change(json!({"quota": {"pods": 2}, "networkPolicies": good})).await;
    env.until_ready().await;
}

#[tokio::test]
async fn reports_unreadable_spec_and_reconciles_others() {
    let env = TestEnv::new().await;
    let bad = json!([{"name": "net", "spec": {"ingress": [{"ports": [{"port": 99_999_999_999_i64}]}]}}]);
    env.create(json!({"networkPolicies": bad})).await;
    let message = env.until_false("PoliciesReady", "InvalidSpec").await;
    assert!(message.starts_with("NetworkPolicy net is invalid"), "{message}");
    TestEnv::new().await.ready(json!({})).await;
}

#[tokio::test]
async fn never_modifies_foreign_object_of_same_name() {
    let env = TestEnv::new().await;
    env.ready(json!({})).await;
    let policies = env.inside::<NetworkPolicy>();
    let theirs = serde_json::from_value(json!({"metadata": {"name": "net"}, "spec": {"podSelector": {}}}));
    let theirs = policies.create(&PostParams::default(), &theirs.unwrap()).await.unwrap();
    env.change(json!({"networkPolicies": [{"name": "net", "spec": {"policyTypes": ["Egress"]}}]})).await;
    let message = env.until_false("PoliciesReady", "NameConflict").await;
    assert!(message.contains("is not owned by this object"), "{message}");
    assert_eq!(version(&policies.get("net").await.unwrap()), version(&theirs));
}
