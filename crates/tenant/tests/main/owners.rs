//! Owners that a Tenant selects from the TenantOwners.

use capsule::api::v1beta2::TenantOwner;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{TestEnv, status};

fn owners(env: &TestEnv) -> Api<TenantOwner> {
    Api::all(env.client.clone())
}

async fn create(env: &TestEnv, suffix: &str, labels: Value, spec: Value) {
    let owner = json!({ "metadata": { "name": env.prefixed(suffix), "labels": labels }, "spec": spec });
    owners(env).create(&PostParams::default(), &serde_json::from_value(owner).unwrap()).await.unwrap();
}

async fn label(env: &TestEnv, suffix: &str, labels: Value) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    owners(env).patch(&env.prefixed(suffix), &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until exactly these owners, given as `name role`, are in the status and in RoleBindings.
async fn until_owned(env: &TestEnv, by: &[&str]) {
    env.until(&format!("to be owned by {by:?}"), |tenant| {
        let owners = status(tenant).owners;
        owners
            .iter()
            .map(|owner| format!("{} {}", owner.name, owner.cluster_roles.join("+")))
            .eq(by.iter().copied())
    })
    .await;
    let mut wanted: Vec<_> = by.iter().map(|owner| (*owner).to_owned()).collect();
    wanted.sort();
    env.until_objects::<RoleBinding>("a", &format!("for {by:?}"), |found| {
        let who = |binding: &RoleBinding| {
            let subject = &binding.subjects.as_ref().unwrap()[0];
            format!("{} {}", subject.name, binding.role_ref.name)
        };
        let mut found: Vec<_> = found.iter().map(who).collect();
        found.sort();
        found == wanted
    })
    .await;
}

#[tokio::test]
async fn selects_owners_by_label_and_selector_and_revokes_their_roles() {
    let env = TestEnv::new().await;
    let name = env.name.clone();
    let alice = json!({ "kind": "User", "name": "alice", "clusterRoles": ["admin"] });
    let selecting =
        json!({ "matchOwners": [{ "matchLabels": { "team": name } }, { "matchLabels": { "all": name } }] });
    env.ready(json!({ "owners": [alice], "permissions": selecting }), &["a"]).await;
    until_owned(&env, &["alice admin"]).await;

    let view = |name: &str| json!({ "kind": "User", "name": name, "clusterRoles": ["view"] });
    create(&env, "anna", json!({ "projectcapsule.dev/tenant": name }), view("anna")).await;
    create(&env, "bob", json!({ "team": name }), view("bob")).await;
    create(&env, "eve", json!({ "team": "other" }), view("eve")).await;
    until_owned(&env, &["alice admin", "anna view", "bob view"]).await;

    label(&env, "bob", json!({ "team": null })).await;
    label(&env, "eve", json!({ "all": name })).await;
    until_owned(&env, &["alice admin", "anna view", "eve view"]).await;

    let edit = Patch::Merge(json!({ "spec": { "clusterRoles": ["edit"] } }));
    owners(&env).patch(&env.prefixed("anna"), &PatchParams::default(), &edit).await.unwrap();
    until_owned(&env, &["alice admin", "anna edit", "eve view"]).await;

    owners(&env).delete(&env.prefixed("anna"), &DeleteParams::default()).await.unwrap();
    env.change(json!({ "permissions": null })).await;
    until_owned(&env, &["alice admin"]).await;
    env.until_ready(&["a"]).await;
    for suffix in ["bob", "eve"] {
        owners(&env).delete(&env.prefixed(suffix), &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn reports_invalid_selector_and_uses_the_others() {
    let env = TestEnv::new().await;
    let odd = json!({ "matchExpressions": [{ "key": "team", "operator": "Like" }] });
    let good = json!({ "matchLabels": { "team": env.name } });
    create(
        &env,
        "anna",
        json!({ "team": env.name }),
        json!({ "kind": "User", "name": "anna", "clusterRoles": ["view"] }),
    )
    .await;
    env.create(json!({ "permissions": { "matchOwners": [odd, good] } })).await;
    env.join("a").await;
    env.until_condition("Ready", "False", "spec.permissions.matchOwners[0] cannot be used").await;
    until_owned(&env, &["anna view"]).await;
    owners(&env).delete(&env.prefixed("anna"), &DeleteParams::default()).await.unwrap();
}
