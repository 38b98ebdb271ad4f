//! What owners may do, and what the manager may not give.

use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::RoleBinding};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, said, status};

async fn until_may_list(client: &Client, namespace: &str) {
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    cluster::wait::eventually("the right to list", PATIENCE, async || {
        config_maps.list(&ListParams::default()).await?;
        Ok(true)
    })
    .await
    .unwrap();
}

async fn is_refused(client: &Client, namespace: &str) -> bool {
    let config_map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "mine" } })).unwrap();
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let made = config_maps.create(&PostParams::default(), &config_map).await;
    made.is_err_and(|error| error.to_string().contains("forbidden"))
}

#[tokio::test]
async fn owners_are_at_home_in_the_namespaces_of_their_tenant_and_nowhere_else() {
    let world = World::new().await;
    let owners = json!([
        { "kind": "User", "name": "alice", "clusterRoles": ["admin"] },
        { "kind": "Group", "name": format!("{}-devs", world.name), "clusterRoles": ["edit"] },
    ]);
    let guests = json!([{ "clusterRoleName": "view", "subjects": [{ "kind": "User", "name": "bob" }] }]);
    world.ready(json!({ "owners": owners, "additionalRoleBindings": guests }), &["a"]).await;
    world.namespace("stranger", json!({})).await;
    let (home, elsewhere) = (world.named("a"), world.named("stranger"));
    let cluster = world.harness.cluster;
    let alice = cluster.client_as("alice", &[]).await.unwrap();
    until_may_list(&alice, &home).await;
    assert!(!is_refused(&alice, &home).await);
    assert!(is_refused(&alice, &elsewhere).await);
    let carol = cluster.client_as("carol", &[&format!("{}-devs", world.name)]).await.unwrap();
    until_may_list(&carol, &home).await;
    let bob = cluster.client_as("bob", &[]).await.unwrap();
    until_may_list(&bob, &home).await;
    assert!(is_refused(&bob, &home).await, "bob may only look");
}

#[tokio::test]
async fn a_service_account_without_a_namespace_is_the_one_of_that_name_in_each_namespace() {
    let world = World::new().await;
    let subjects = json!([{ "kind": "ServiceAccount", "name": "deployer" }]);
    let bindings = json!([{ "clusterRoleName": "edit", "subjects": subjects }]);
    world.ready(json!({ "additionalRoleBindings": bindings }), &["a", "b"]).await;
    let (one, other) = (world.named("a"), world.named("b"));
    for (home, elsewhere) in [(&one, &other), (&other, &one)] {
        let account = format!("system:serviceaccount:{home}:deployer");
        let deployer = world.harness.cluster.client_as(&account, &[]).await.unwrap();
        until_may_list(&deployer, home).await;
        assert!(!is_refused(&deployer, home).await);
        assert!(is_refused(&deployer, elsewhere).await);
    }
}

#[tokio::test]
async fn owners_are_in_the_status_with_their_roles() {
    let world = World::new().await;
    let account = "system:serviceaccount:default:deployer";
    let owners = json!([
        { "kind": "User", "name": "alice" },
        { "kind": "ServiceAccount", "name": account, "clusterRoles": ["edit"] },
    ]);
    let tenant = world.ready(json!({ "owners": owners }), &[]).await;
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
async fn a_role_that_the_manager_may_not_give_is_told_and_the_others_are_given() {
    let world = World::new().await;
    world.create(refused_role()).await;
    world.join("a").await;
    let words =
        "the manager may not give the ClusterRole cluster-admin; grant the manager the verb \"bind\" on";
    let tenant = world.until_said("Ready", "False", words).await;
    let (_, reason, message) = said(&tenant, "Ready").unwrap();
    assert_eq!(reason, "Failed");
    assert!(message.contains("cannot create RoleBinding") && message.contains("is forbidden"), "{message}");
    let space = &status(&tenant).spaces[0];
    assert!(operator_core::conditions::find(&space.conditions, "Ready").unwrap().message.contains(words));
    world
        .until_objects::<RoleBinding>("a", "to give the other role", |found| {
            found.len() == 1 && found[0].role_ref.name == "admin"
        })
        .await;
    let about = format!("--for=tenant/{}", world.name);
    cluster::wait::eventually("an Event", PATIENCE, async || {
        Ok(world.kubectl(&["events", &about, "-A"]).await?.contains("ReconcileFailed"))
    })
    .await
    .unwrap();
    world.change(json!({ "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["admin"] }] })).await;
    world.until_ready(&["a"]).await;
}

#[tokio::test]
async fn a_role_that_does_not_exist_is_told() {
    let world = World::new().await;
    let subjects = json!([{ "kind": "User", "name": "bob" }]);
    world.create(json!({ "additionalRoleBindings": [{ "clusterRoleName": "no-such-role", "subjects": subjects }] })).await;
    world.join("a").await;
    world.until_said("Ready", "False", "\"no-such-role\" not found").await;
}
