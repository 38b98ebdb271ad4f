//! Membership of namespaces in Tenants.

use k8s_openapi::api::{core::v1::LimitRange, rbac::v1::RoleBinding};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use operator_core::finalizer;
use serde_json::{Value, json};

use crate::support::{TestEnv, label, reference, status, tenant};

fn spec() -> Value {
    json!({
        "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["admin"] }],
        "limitRanges": { "items": [{ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] }] },
        "nodeSelector": { "pool": "a" },
    })
}

/// Asserts that the controller did not write to a namespace. Call it after a member is ready.
fn assert_untouched(env: &TestEnv, suffix: &str) {
    let name = env.prefixed(suffix);
    let log = env.harness.requests().unwrap().writes();
    let about_it = log.filter(|entry| entry.namespace == name || entry.name == name);
    assert_eq!(about_it.entries, [], "{name}");
}

#[tokio::test]
async fn requires_both_label_and_owner_reference() {
    let env = TestEnv::new().await;
    let tenant = env.create(spec()).await;
    env.namespace("label", json!({ "labels": label(&env.name) })).await;
    env.namespace("reference", json!({ "ownerReferences": [reference(&tenant)] })).await;
    env.join("member").await;
    env.until_ready(&["member"]).await;
    let text = format!("namespace {} does not belong to the Tenant: it has the label", env.prefixed("label"));
    env.until_condition("Ready", "True", &text).await;
    let text =
        format!("namespace {} does not belong to the Tenant: it has an owner", env.prefixed("reference"));
    env.until_condition("Ready", "True", &text).await;
    assert_untouched(&env, "label");
    assert_untouched(&env, "reference");

    // An administrator adds the missing label and owner reference.
    env.patch_namespace("label", json!({ "ownerReferences": [reference(&tenant)] })).await;
    env.patch_namespace("reference", json!({ "labels": label(&env.name) })).await;
    env.until_ready(&["label", "member", "reference"]).await;
}

#[tokio::test]
async fn ignores_forged_duplicate_and_controlling_references() {
    let env = TestEnv::new().await;
    let mine = env.create(spec()).await;
    let other = env
        .tenants()
        .create(&PostParams::default(), &tenant(&env.prefixed("other"), json!({})))
        .await
        .unwrap();
    let mut forged = reference(&mine);
    forged["uid"] = other.uid().into();
    let mut controlling = reference(&mine);
    controlling["controller"] = true.into();
    for (suffix, references) in [
        ("forged", json!([forged])),
        ("doubled", json!([reference(&mine), reference(&other)])),
        ("controlling", json!([controlling])),
    ] {
        env.namespace(suffix, json!({ "labels": label(&env.name), "ownerReferences": references })).await;
    }
    env.join("member").await;
    env.until_ready(&["member"]).await;
    env.until_condition("Ready", "True", "owner references to several Tenants").await;
    env.until_condition("Ready", "True", "has controller: true").await;
    for suffix in ["forged", "doubled", "controlling"] {
        assert_untouched(&env, suffix);
    }
    let other = env.tenants().get(&env.prefixed("other")).await.unwrap();
    assert_eq!(status(&other).size, 0);
    env.tenants().delete(&env.prefixed("other"), &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn ignores_namespaces_of_the_cluster() {
    let env = TestEnv::new().await;
    let tenant = env.create(spec()).await;
    let own = json!({ "labels": label(&env.name), "ownerReferences": [reference(&tenant)] });
    let name = format!("kube-{}", env.name);
    let namespace = json!({ "metadata": {
        "name": name, "labels": own["labels"], "ownerReferences": own["ownerReferences"],
    } });
    env.namespaces()
        .create(&PostParams::default(), &serde_json::from_value(namespace).unwrap())
        .await
        .unwrap();
    env.until_condition(
        "Ready",
        "True",
        "namespaces of the cluster and of the manager cannot belong to a Tenant",
    )
    .await;
    env.until_ready(&[]).await;
    env.namespaces().delete(&name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn deletes_objects_in_namespace_that_leaves_the_tenant() {
    let env = TestEnv::new().await;
    env.ready(spec(), &["a", "b"]).await;
    env.patch_namespace("a", json!({ "labels": { "capsule.clastix.io/tenant": null } })).await;
    env.until_ready(&["b"]).await;
    env.until_objects::<LimitRange>("a", "to be gone", <[_]>::is_empty).await;
    env.until_objects::<RoleBinding>("a", "to be gone", <[_]>::is_empty).await;
    env.until_objects::<LimitRange>("b", "to stay", |found| found.len() == 1).await;

    env.patch_namespace("b", json!({ "ownerReferences": null })).await;
    let tenant = env.until_ready(&[]).await;
    env.until_objects::<RoleBinding>("b", "to be gone", <[_]>::is_empty).await;
    let has = |tenant: &_| finalizer::has(tenant, "controller.projectcapsule.dev/finalize");
    if has(&tenant) {
        env.until("the finalizer to go", |tenant| !has(tenant)).await;
    }
}

#[tokio::test]
async fn moves_namespace_to_another_tenant() {
    let (from, to) = (TestEnv::new().await, TestEnv::new().await);
    from.ready(spec(), &["a"]).await;
    let target = to.create(spec()).await;
    from.patch_namespace("a", json!({ "labels": label(&to.name) })).await;
    from.until_ready(&[]).await;
    from.until_condition("Ready", "True", "does not belong to the Tenant").await;
    to.until_condition("Ready", "True", "does not belong to the Tenant").await;
    from.patch_namespace("a", json!({ "ownerReferences": [reference(&target)] })).await;
    let is_theirs = |tenant: &capsule::Tenant| status(tenant).namespaces == [from.prefixed("a")];
    to.until("the namespace to belong to the other Tenant", is_theirs).await;
    from.until_objects::<RoleBinding>("a", "to belong to the other Tenant", |bindings| {
        bindings.len() == 1 && bindings[0].owner_references()[0].name == to.name
    })
    .await;
    to.until_condition("Ready", "True", "reconciled").await;
}

#[tokio::test]
async fn keeps_terminating_namespace_in_status() {
    let env = TestEnv::new().await;
    env.ready(spec(), &["a", "b"]).await;
    env.patch_namespace("a", json!({ "finalizers": ["example.com/wait"] })).await;
    env.namespaces().delete(&env.prefixed("a"), &DeleteParams::default()).await.unwrap();
    env.until("the namespace to be reported as terminating", |tenant| {
        let spaces = status(tenant).spaces;
        spaces.len() == 2
            && operator_core::conditions::is_true(&spaces[0].conditions, "Terminating")
            && !operator_core::conditions::is_true(&spaces[0].conditions, "Ready")
    })
    .await;
    env.until_objects::<LimitRange>("a", "not to be made again", <[_]>::is_empty).await;
    env.patch_namespace("a", json!({ "finalizers": null })).await;
    env.until_ready(&["b"]).await;
}
