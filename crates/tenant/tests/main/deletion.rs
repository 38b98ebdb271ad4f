//! Deletion of Tenants.

use std::time::Duration;

use cluster::wait::eventually;
use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::RoleBinding};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use operator_core::conditions::find;
use serde_json::{Value, json, to_value};

use crate::support::{TIMEOUT, TestEnv, condition, label, status};

/// The garbage collector discovers a new kind after up to 30 seconds.
const UNTIL_COLLECTED: Duration = Duration::from_mins(2);

fn spec() -> Value {
    json!({
        "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["admin"] }],
        "limitRanges": { "items": [{ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] }] },
    })
}

async fn until_gone(env: &TestEnv) {
    eventually("the Tenant to be gone", TIMEOUT, async || {
        let tenant = env.tenants().get_opt(&env.name).await?;
        Ok(tenant.map_or(Ok(()), |tenant| Err(Box::new(tenant.status))))
    })
    .await
    .unwrap();
}

/// Waits until the garbage collector has seen the RoleBindings of a namespace. It orphans only the
/// dependents that it knows, and deletes those that it learns of afterwards.
async fn until_collector_knows_role_bindings(env: &TestEnv, suffix: &str) {
    let ownerless: RoleBinding = serde_json::from_value(json!({
        "metadata": {
            "name": "ownerless",
            "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none" }],
        },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
    }))
    .unwrap();
    let bindings = env.api::<RoleBinding>(&env.prefixed(suffix));
    bindings.create(&PostParams::default(), &ownerless).await.unwrap();
    eventually("the ownerless RoleBinding to be collected", UNTIL_COLLECTED, async || {
        Ok(bindings.get_opt("ownerless").await?.is_none())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn deletes_tenant_without_namespaces_immediately() {
    let env = TestEnv::new().await;
    env.ready(spec(), &[]).await;
    env.tenants().delete(&env.name, &DeleteParams::default()).await.unwrap();
    assert!(env.tenants().get_opt(&env.name).await.unwrap().is_none());
}

#[tokio::test]
async fn terminating_tenant_waits_only_for_its_namespaces() {
    let env = TestEnv::new().await;
    env.ready(spec(), &["a", "b"]).await;
    env.namespace("foreign", json!({ "labels": label(&env.name) })).await;
    let held: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "held", "finalizers": ["example.com/wait"] },
    }))
    .unwrap();
    let config_maps = env.api::<ConfigMap>(&env.prefixed("a"));
    config_maps.create(&PostParams::default(), &held).await.unwrap();

    env.tenants().delete(&env.name, &DeleteParams::default()).await.unwrap();
    let tenant = env
        .until("the Tenant to wait for the held namespace", |tenant| {
            status(tenant).namespaces == [env.prefixed("a")]
        })
        .await;
    assert_eq!(to_value(status(&tenant).state).unwrap(), "Terminating");
    assert!(tenant.metadata.deletion_timestamp.is_some());
    let (is, reason, message) = condition(&tenant, "Ready").unwrap();
    assert_eq!((is.as_str(), reason.as_str()), ("False", "Terminating"));
    assert!(message.contains(&env.prefixed("a")), "{message}");
    env.until("the condition of the namespace", |tenant| {
        let conditions = &status(tenant).spaces[0].conditions;
        let found = find(conditions, "Terminating");
        found.is_some_and(|found| found.reason == "PendingUnmanagedContent")
    })
    .await;

    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    config_maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    until_gone(&env).await;
    for suffix in ["a", "b"] {
        assert!(env.namespaces().get_opt(&env.prefixed(suffix)).await.unwrap().is_none());
    }
    let foreign = env.namespaces().get(&env.prefixed("foreign")).await.unwrap();
    assert!(foreign.metadata.deletion_timestamp.is_none());
}

#[tokio::test]
async fn reports_what_blocks_the_deletion_of_each_namespace() {
    let env = TestEnv::new().await;
    env.ready(spec(), &["a", "b", "c"]).await;
    let held: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "held", "finalizers": ["example.com/backup"] }, "data": { "precious": "yes" },
    }))
    .unwrap();
    let config_maps = env.api::<ConfigMap>(&env.prefixed("a"));
    config_maps.create(&PostParams::default(), &held).await.unwrap();
    env.patch_namespace("b", json!({ "finalizers": ["example.com/audit"] })).await;

    env.tenants().delete(&env.name, &DeleteParams::default()).await.unwrap();
    let (a, b) = (env.prefixed("a"), env.prefixed("b"));
    let tenant = env
        .until("the message to contain what blocks each namespace", |tenant| {
            let (_, _, message) = condition(tenant, "Ready").unwrap_or_default();
            status(tenant).namespaces == [a.clone(), b.clone()]
                && message.contains("example.com/backup in 1 resource instances")
                && message.contains(&format!(
                    "namespace {b}: finalizers of the namespace remain: example.com/audit"
                ))
        })
        .await;
    let spaces = status(&tenant).spaces;
    let waits = |at: usize| find(&spaces[at].conditions, "Terminating").unwrap().message.clone();
    assert!(waits(0).contains("example.com/backup"), "{}", waits(0));
    assert!(waits(1).contains("example.com/audit"), "{}", waits(1));
    assert_eq!(config_maps.get("held").await.unwrap().data.unwrap()["precious"], "yes", "the data is intact");

    env.patch_namespace("b", json!({ "finalizers": null })).await;
    env.until("only the other namespace to remain", |tenant| status(tenant).namespaces == [a.clone()]).await;
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    config_maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    until_gone(&env).await;
    for suffix in ["a", "b", "c"] {
        assert!(env.namespaces().get_opt(&env.prefixed(suffix)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn orphan_deletion_keeps_namespaces() {
    let env = TestEnv::new().await;
    let before = env.ready(spec(), &["a"]).await;
    until_collector_knows_role_bindings(&env, "a").await;
    let namespace = env.namespaces().get(&env.prefixed("a")).await.unwrap();
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    env.tenants().delete(&env.name, &orphan).await.unwrap();
    eventually("the Tenant to be gone", UNTIL_COLLECTED, async || {
        Ok(env.tenants().get_opt(&env.name).await?.is_none())
    })
    .await
    .unwrap();
    let orphaned = env.namespaces().get(&env.prefixed("a")).await.unwrap();
    assert_eq!((orphaned.uid(), &orphaned.metadata.deletion_timestamp), (namespace.uid(), &None));
    assert!(orphaned.owner_references().iter().all(|owner| Some(&owner.uid) != before.uid().as_ref()));
    env.until_objects::<RoleBinding>("a", "to stay", |found| found.len() == 1).await;
}
