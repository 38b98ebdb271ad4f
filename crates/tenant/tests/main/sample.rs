//! The sample Tenant with namespaces.

use k8s_openapi::api::{
    core::v1::{LimitRange, ResourceQuota},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use kube::ResourceExt;
use operator_core::finalizer;

use crate::support::{Namespaced, TestEnv, condition, status};

const SAMPLE: &str = include_str!("../../../../samples/tenant.yaml");

/// Applies the sample with the name of the test's Tenant.
async fn apply(env: &TestEnv) {
    let manifest = SAMPLE.replace(": oil\n", &format!(": {}\n", env.name));
    env.harness.cluster.apply_yaml(&manifest).await.unwrap();
}

fn assert_is_child<K: Namespaced>(env: &TestEnv, object: &K, label: &str, value: &str) {
    let labels = object.labels();
    assert_eq!(labels["projectcapsule.dev/managed-by"], "controller");
    assert_eq!(labels["projectcapsule.dev/tenant"], env.name);
    assert_eq!(labels["app.kubernetes.io/managed-by"], "ensemble");
    assert_eq!(labels[label], value);
    let owner = &object.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Tenant", env.name.as_str()));
    assert_eq!(owner.controller, Some(true));
}

#[tokio::test]
async fn sample_is_ready_without_namespaces() {
    let env = TestEnv::new().await;
    apply(&env).await;
    let tenant = env.until_ready(&[]).await;
    let status = status(&tenant);
    assert_eq!(serde_json::to_value(status.state).unwrap(), "Active");
    assert_eq!(status.owners[0].cluster_roles, ["admin", "capsule-namespace-deleter"]);
    let (is, reason, message) = condition(&tenant, "Ready").unwrap();
    assert_eq!((is.as_str(), reason.as_str()), ("True", "Succeeded"));
    let warning = "\"192.168.0.0/12\" is not in canonical form; 192.160.0.0/12, the same network, is used";
    assert!(message.starts_with("reconciled; ") && message.contains(warning), "{message}");
    assert_eq!(condition(&tenant, "Cordoned").unwrap().1, "Active");
    assert!(!finalizer::has(&tenant, "controller.projectcapsule.dev/finalize"));
    let table = env.kubectl(&["get", "tnt", &env.name]).await.unwrap();
    let text: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().take(6).collect();
    let selector = r#"{"kubernetes.io/os":"linux"}"#;
    assert_eq!(text, [&env.name, "Active", "3", "0", selector, "True"]);
}

#[tokio::test]
async fn creates_all_objects_in_each_namespace() {
    let env = TestEnv::new().await;
    apply(&env).await;
    env.join("development").await;
    env.join("production").await;
    let tenant = env.until_ready(&["development", "production"]).await;
    assert!(finalizer::has(&tenant, "controller.projectcapsule.dev/finalize"));
    for suffix in ["development", "production"] {
        let namespace = env.namespaces().get(&env.prefixed(suffix)).await.unwrap();
        assert_eq!(
            namespace.annotations()["scheduler.alpha.kubernetes.io/node-selector"],
            "kubernetes.io/os=linux"
        );
        let space = status(&tenant).spaces.into_iter().find(|space| space.name == namespace.name_any());
        assert_eq!(space.unwrap().uid, namespace.uid());
        check_limits(&env, suffix).await;
        check_policy(&env, suffix).await;
        check_quotas(&env, suffix).await;
        check_bindings(&env, suffix).await;
    }
}

async fn check_limits(env: &TestEnv, suffix: &str) {
    let ranges = env.until_objects::<LimitRange>(suffix, "to be one", |ranges| ranges.len() == 1).await;
    assert_eq!(ranges[0].name_any(), format!("capsule-{}-0", env.name));
    assert_is_child(env, &ranges[0], "capsule.clastix.io/limit-range", "0");
    let limits = &ranges[0].spec.as_ref().unwrap().limits;
    let types: Vec<_> = limits.iter().map(|limit| limit.type_.as_str()).collect();
    assert_eq!(types, ["Pod", "Container", "PersistentVolumeClaim"]);
}

async fn check_policy(env: &TestEnv, suffix: &str) {
    let policies = env.until_objects::<NetworkPolicy>(suffix, "to be one", |found| found.len() == 1).await;
    assert_eq!(policies[0].name_any(), format!("capsule-{}-0", env.name));
    assert_is_child(env, &policies[0], "capsule.clastix.io/network-policy", "0");
    let spec = policies[0].spec.as_ref().unwrap();
    let out = spec.egress.as_ref().unwrap()[0].to.as_ref().unwrap()[0].ip_block.as_ref().unwrap();
    assert_eq!(out.except.as_ref().unwrap(), &["192.160.0.0/12"]);
    assert_eq!(spec.ingress.as_ref().unwrap()[0].from.as_ref().unwrap().len(), 3);
}

async fn check_quotas(env: &TestEnv, suffix: &str) {
    let quotas = env.until_objects::<ResourceQuota>(suffix, "to be three", |found| found.len() == 3).await;
    for (index, quota) in quotas.iter().enumerate() {
        assert_eq!(quota.name_any(), format!("capsule-{}-{index}", env.name));
        assert_is_child(env, quota, "capsule.clastix.io/resource-quota", &index.to_string());
    }
    // Without usage, each namespace gets the full quota.
    let hard = |index: usize| quotas[index].spec.as_ref().unwrap().hard.clone().unwrap();
    assert_eq!(hard(0)["limits.memory"].0, "16Gi");
    assert_eq!(hard(1)["pods"].0, "10");
    assert_eq!(hard(2)["requests.storage"].0, "100Gi");
    assert_eq!(quotas[0].spec.as_ref().unwrap().scopes.as_ref().unwrap(), &["NotTerminating"]);
    assert_eq!(quotas[1].annotations()["quota.capsule.clastix.io/hard-pods"], "10");
}

async fn check_bindings(env: &TestEnv, suffix: &str) {
    let bindings = env.until_objects::<RoleBinding>(suffix, "to be two", |found| found.len() == 2).await;
    // Other programs compute the same names.
    let expected = [
        ("capsule:managed:286b623af2586c63", "capsule-namespace-deleter"),
        ("capsule:managed:f93a4d3523f699fb", "admin"),
    ];
    for (binding, (name, role)) in bindings.iter().zip(expected) {
        assert_eq!((binding.name_any().as_str(), binding.role_ref.name.as_str()), (name, role));
        let hash = name.trim_start_matches("capsule:managed:");
        assert_is_child(env, binding, "capsule.clastix.io/role-binding", hash);
        assert_eq!(binding.subjects.as_ref().unwrap()[0].name, "alice");
    }
}
