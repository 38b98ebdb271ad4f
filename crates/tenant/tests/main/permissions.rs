//! Permissions of owners, and roles that the manager may not bind.

use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::RoleBinding};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{TIMEOUT, TestEnv, condition, status};

async fn until_may_list(client: &Client, namespace: &str) {
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    cluster::wait::eventually("the right to list", TIMEOUT, async || {
        config_maps.list(&ListParams::default()).await?;
        Ok(true)
    })
    .await
    .unwrap();
}

async fn is_forbidden(client: &Client, namespace: &str) -> bool {
    let config_map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "mine" } })).unwrap();
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let made = config_maps.create(&PostParams::default(), &config_map).await;
    made.is_err_and(|error| error.to_string().contains("forbidden"))
}

#[tokio::test]
async fn grants_permissions_only_in_namespaces_of_the_tenant() {
    let env = TestEnv::new().await;
    let owners = json!([
        { "kind": "User", "name": "alice", "clusterRoles": ["admin"] },
        { "kind": "Group", "name": format!("{}-devs", env.name), "clusterRoles": ["edit"] },
    ]);
    let guests = json!([{ "clusterRoleName": "view", "subjects": [{ "kind": "User", "name": "bob" }] }]);
    env.ready(json!({ "owners": owners, "additionalRoleBindings": guests }), &["a"]).await;
    env.namespace("foreign", json!({})).await;
    let (home, elsewhere) = (env.prefixed("a"), env.prefixed("foreign"));
    let cluster = env.harness.cluster;
    let alice = cluster.client_as("alice", &[]).await.unwrap();
    until_may_list(&alice, &home).await;
    assert!(!is_forbidden(&alice, &home).await);
    assert!(is_forbidden(&alice, &elsewhere).await);
    let carol = cluster.client_as("carol", &[&format!("{}-devs", env.name)]).await.unwrap();
    until_may_list(&carol, &home).await;
    let bob = cluster.client_as("bob", &[]).await.unwrap();
    until_may_list(&bob, &home).await;
    assert!(is_forbidden(&bob, &home).await, "bob has only the role view");
}

#[tokio::test]
async fn binds_service_account_without_namespace_in_each_namespace() {
    let env = TestEnv::new().await;
    let subjects = json!([{ "kind": "ServiceAccount", "name": "deployer" }]);
    let bindings = json!([{ "clusterRoleName": "edit", "subjects": subjects }]);
    env.ready(json!({ "additionalRoleBindings": bindings }), &["a", "b"]).await;
    let (one, other) = (env.prefixed("a"), env.prefixed("b"));
    for (home, elsewhere) in [(&one, &other), (&other, &one)] {
        let account = format!("system:serviceaccount:{home}:deployer");
        let deployer = env.harness.cluster.client_as(&account, &[]).await.unwrap();
        until_may_list(&deployer, home).await;
        assert!(!is_forbidden(&deployer, home).await);
        assert!(is_forbidden(&deployer, elsewhere).await);
    }
}

#[tokio::test]
async fn reports_owners_and_roles_in_status() {
    let env = TestEnv::new().await;
    let account = "system:serviceaccount:default:deployer";
    let owners = json!([
        { "kind": "User", "name": "alice" },
        { "kind": "ServiceAccount", "name": account, "clusterRoles": ["edit"] },
    ]);
    let tenant = env.ready(json!({ "owners": owners }), &[]).await;
    let expected = json!([
        { "kind": "User", "name": "alice", "clusterRoles": ["admin", "capsule-namespace-deleter"] },
        { "kind": "ServiceAccount", "name": account, "clusterRoles": ["edit"] },
    ]);
    assert_eq!(serde_json::to_value(status(&tenant).owners).unwrap(), expected);
}

fn refused_role() -> Value {
    json!({ "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["cluster-admin", "admin"] }] })
}

#[tokio::test]
async fn reports_role_that_the_manager_may_not_bind_and_binds_others() {
    let env = TestEnv::new().await;
    env.create(refused_role()).await;
    env.join("a").await;
    let text =
        "the manager may not bind the ClusterRole cluster-admin; grant the manager the verb \"bind\" on";
    let tenant = env.until_condition("Ready", "False", text).await;
    let (_, reason, message) = condition(&tenant, "Ready").unwrap();
    assert_eq!(reason, "Failed");
    assert!(message.contains("cannot create RoleBinding") && message.contains("is forbidden"), "{message}");
    let space = &status(&tenant).spaces[0];
    assert!(operator_core::conditions::find(&space.conditions, "Ready").unwrap().message.contains(text));
    env.until_objects::<RoleBinding>("a", "to give the other role", |found| {
        found.len() == 1 && found[0].role_ref.name == "admin"
    })
    .await;
    let about = format!("--for=tenant/{}", env.name);
    cluster::wait::eventually("an Event", TIMEOUT, async || {
        Ok(env.kubectl(&["events", &about, "-A"]).await?.contains("ReconcileFailed"))
    })
    .await
    .unwrap();
    env.change(json!({ "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["admin"] }] })).await;
    env.until_ready(&["a"]).await;
}

#[tokio::test]
async fn reports_role_that_does_not_exist() {
    let env = TestEnv::new().await;
    let subjects = json!([{ "kind": "User", "name": "bob" }]);
    env.create(
        json!({ "additionalRoleBindings": [{ "clusterRoleName": "no-such-role", "subjects": subjects }] }),
    )
    .await;
    env.join("a").await;
    env.until_condition("Ready", "False", "\"no-such-role\" not found").await;
}
