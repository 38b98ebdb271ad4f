//! The sample, with namespaces as an administrator joins them.

use k8s_openapi::api::{
    core::v1::{LimitRange, ResourceQuota},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use kube::ResourceExt;
use operator_core::finalizer;

use crate::support::{Namespaced, World, said, status};

const SAMPLE: &str = include_str!("../../../../samples/tenant.yaml");

/// Applies the sample under the name of the test's own Tenant.
async fn apply(world: &World) {
    let manifest = SAMPLE.replace(": oil\n", &format!(": {}\n", world.name));
    world.harness.cluster.apply_yaml(&manifest).await.unwrap();
}

fn assert_is_child<K: Namespaced>(world: &World, object: &K, label: &str, value: &str) {
    let labels = object.labels();
    assert_eq!(labels["projectcapsule.dev/managed-by"], "controller");
    assert_eq!(labels["projectcapsule.dev/tenant"], world.name);
    assert_eq!(labels["app.kubernetes.io/managed-by"], "ensemble");
    assert_eq!(labels[label], value);
    let owner = &object.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Tenant", world.name.as_str()));
    assert_eq!(owner.controller, Some(true));
}

#[tokio::test]
async fn without_namespaces_the_sample_is_ready() {
    let world = World::new().await;
    apply(&world).await;
    let tenant = world.until_ready(&[]).await;
    let status = status(&tenant);
    assert_eq!(serde_json::to_value(status.state).unwrap(), "Active");
    assert_eq!(status.owners[0].cluster_roles, ["admin", "capsule-namespace-deleter"]);
    let (is, reason, message) = said(&tenant, "Ready").unwrap();
    assert_eq!((is.as_str(), reason.as_str()), ("True", "Succeeded"));
    let told = "\"192.168.0.0/12\" is not in canonical form; 192.160.0.0/12, the same network, is used";
    assert!(message.starts_with("reconciled; ") && message.contains(told), "{message}");
    assert_eq!(said(&tenant, "Cordoned").unwrap().1, "Active");
    assert!(!finalizer::has(&tenant, "controller.projectcapsule.dev/finalize"));
    let table = world.kubectl(&["get", "tnt", &world.name]).await.unwrap();
    let words: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().take(6).collect();
    let selector = r#"{"kubernetes.io/os":"linux"}"#;
    assert_eq!(words, [&world.name, "Active", "3", "0", selector, "True"]);
}

#[tokio::test]
async fn two_namespaces_carry_everything() {
    let world = World::new().await;
    apply(&world).await;
    world.join("development").await;
    world.join("production").await;
    let tenant = world.until_ready(&["development", "production"]).await;
    assert!(finalizer::has(&tenant, "controller.projectcapsule.dev/finalize"));
    for end in ["development", "production"] {
        let namespace = world.namespaces().get(&world.named(end)).await.unwrap();
        assert_eq!(
            namespace.annotations()["scheduler.alpha.kubernetes.io/node-selector"],
            "kubernetes.io/os=linux"
        );
        let space = status(&tenant).spaces.into_iter().find(|space| space.name == namespace.name_any());
        assert_eq!(space.unwrap().uid, namespace.uid());
        carries_limits(&world, end).await;
        carries_policy(&world, end).await;
        carries_quotas(&world, end).await;
        carries_bindings(&world, end).await;
    }
}

async fn carries_limits(world: &World, end: &str) {
    let ranges = world.until_objects::<LimitRange>(end, "to be one", |ranges| ranges.len() == 1).await;
    assert_eq!(ranges[0].name_any(), format!("capsule-{}-0", world.name));
    assert_is_child(world, &ranges[0], "capsule.clastix.io/limit-range", "0");
    let limits = &ranges[0].spec.as_ref().unwrap().limits;
    let types: Vec<_> = limits.iter().map(|limit| limit.type_.as_str()).collect();
    assert_eq!(types, ["Pod", "Container", "PersistentVolumeClaim"]);
}

async fn carries_policy(world: &World, end: &str) {
    let policies = world.until_objects::<NetworkPolicy>(end, "to be one", |found| found.len() == 1).await;
    assert_eq!(policies[0].name_any(), format!("capsule-{}-0", world.name));
    assert_is_child(world, &policies[0], "capsule.clastix.io/network-policy", "0");
    let spec = policies[0].spec.as_ref().unwrap();
    let out = spec.egress.as_ref().unwrap()[0].to.as_ref().unwrap()[0].ip_block.as_ref().unwrap();
    assert_eq!(out.except.as_ref().unwrap(), &["192.160.0.0/12"]);
    assert_eq!(spec.ingress.as_ref().unwrap()[0].from.as_ref().unwrap().len(), 3);
}

async fn carries_quotas(world: &World, end: &str) {
    let quotas = world.until_objects::<ResourceQuota>(end, "to be three", |found| found.len() == 3).await;
    for (index, quota) in quotas.iter().enumerate() {
        assert_eq!(quota.name_any(), format!("capsule-{}-{index}", world.name));
        assert_is_child(world, quota, "capsule.clastix.io/resource-quota", &index.to_string());
    }
    // While nothing is used, each namespace has the whole.
    let hard = |index: usize| quotas[index].spec.as_ref().unwrap().hard.clone().unwrap();
    assert_eq!(hard(0)["limits.memory"].0, "16Gi");
    assert_eq!(hard(1)["pods"].0, "10");
    assert_eq!(hard(2)["requests.storage"].0, "100Gi");
    assert_eq!(quotas[0].spec.as_ref().unwrap().scopes.as_ref().unwrap(), &["NotTerminating"]);
    assert_eq!(quotas[1].annotations()["quota.capsule.clastix.io/hard-pods"], "10");
}

async fn carries_bindings(world: &World, end: &str) {
    let bindings = world.until_objects::<RoleBinding>(end, "to be two", |found| found.len() == 2).await;
    // The names are computed by other programs too.
    let expected = [
        ("capsule:managed:286b623af2586c63", "capsule-namespace-deleter"),
        ("capsule:managed:f93a4d3523f699fb", "admin"),
    ];
    for (binding, (name, role)) in bindings.iter().zip(expected) {
        assert_eq!((binding.name_any().as_str(), binding.role_ref.name.as_str()), (name, role));
        let hash = name.trim_start_matches("capsule:managed:");
        assert_is_child(world, binding, "capsule.clastix.io/role-binding", hash);
        assert_eq!(binding.subjects.as_ref().unwrap()[0].name, "alice");
    }
}
