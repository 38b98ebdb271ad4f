//! No path leads out of the Tenant, and none to a cluster-scoped kind.

use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::ClusterRole};
use serde_json::{Value, json};

use crate::support::{TestEnv, config_map, raw};

fn cluster_role(name: &str) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name }, "rules": [] })
}

/// Creates a TenantResource whose account may do everything, and expects that nothing is created.
async fn assert_refused(spec: impl FnOnce(&str) -> Value, text: &str) {
    let env = TestEnv::new(&[]).await;
    env.bind_everywhere("replicator", "cluster-admin").await;
    let name = env.prefixed("role");
    env.tenant_resource("r", spec(&name)).await;
    let failed = env.until_failed(&env.tenant_resources(), "r", text).await;
    let status = failed.status.unwrap();
    assert_eq!(status.processed_items, [], "nothing is applied");
    assert!(env.all::<ClusterRole>().get_opt(&name).await.unwrap().is_none());
    assert!(env.api::<ConfigMap>("home").get_opt("fine").await.unwrap().is_none());
}

#[tokio::test]
async fn cve_2026_22872_cluster_scoped_raw_items_are_refused() {
    let spec = |name: &str| raw(vec![cluster_role(name), config_map("fine", json!({}))]);
    assert_refused(spec, "cluster-scoped kind rbac.authorization.k8s.io/v1/ClusterRole is not allowed").await;
}

#[tokio::test]
async fn cve_2026_65835_cluster_scoped_generators_are_refused() {
    let spec = |name: &str| {
        let template = format!(
            "{}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: fine }}\n",
            cluster_role(name)
        );
        json!({ "resources": [{ "generators": [{ "template": template }] }] })
    };
    assert_refused(spec, "cluster-scoped kind rbac.authorization.k8s.io/v1/ClusterRole is not allowed").await;
}

#[tokio::test]
async fn cve_2026_65835_cluster_scoped_copies_are_refused() {
    let item =
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "admin" });
    let spec = |_: &str| json!({ "resources": [{ "namespacedItems": [item], "rawItems": [config_map("fine", json!({}))] }] });
    assert_refused(spec, "cluster-scoped kind rbac.authorization.k8s.io/v1/ClusterRole is not allowed").await;
}

#[tokio::test]
async fn cve_2025_55205_a_labelled_namespace_of_others_gets_nothing() {
    let env = TestEnv::new(&[]).await;
    let name = env.prefixed("foreign");
    // The label without the owner reference.
    let metadata = json!({ "name": name, "labels": { "capsule.clastix.io/tenant": env.name } });
    env.create_cluster::<k8s_openapi::api::core::v1::Namespace>(json!({ "metadata": metadata })).await;
    env.bind_everywhere("replicator", "cluster-admin").await;
    env.tenant_resource("r", raw(vec![config_map("x", json!({}))])).await;
    let object = env.until_ready(&env.tenant_resources(), "r", 1).await;
    assert_eq!(object.status.unwrap().processed_items[0].namespace, env.home());
    let foreign = kube::Api::<ConfigMap>::namespaced(env.client.clone(), &name);
    assert!(foreign.get_opt("x").await.unwrap().is_none());
}

#[tokio::test]
async fn sources_in_foreign_namespaces_are_refused() {
    let env = TestEnv::new(&[]).await;
    env.bind_everywhere("replicator", "cluster-admin").await;
    let resources = env.tenant_resources();
    let foreign = json!({ "kind": "ConfigMap", "name": "kube-root-ca.crt", "namespace": "kube-system" });
    env.tenant_resource("copy", json!({ "resources": [{ "namespacedItems": [foreign.clone()] }] })).await;
    let context = json!({ "resources": [{ "context": { "resources": [foreign] }, "generators": [{ "template": "" }] }] });
    env.tenant_resource("context", context).await;
    let templated = json!({ "kind": "ConfigMap", "selector": {}, "namespace": "{{tenant.name}}-other" });
    env.tenant_resource("templated", json!({ "resources": [{ "namespacedItems": [templated] }] })).await;
    for name in ["copy", "context"] {
        let failed = env.until_failed(&resources, name, "cross-namespace selection is not allowed").await;
        assert!(crate::support::ready(&failed).2.contains("kube-system"));
    }
    let failed = env.until_failed(&resources, "templated", "cross-namespace selection is not allowed").await;
    assert!(crate::support::ready(&failed).2.contains(&env.prefixed("other")));
}

#[tokio::test]
async fn a_tenant_resource_outside_of_tenants_fails() {
    let env = TestEnv::new(&[]).await;
    let name = env.prefixed("free");
    env.create_cluster::<k8s_openapi::api::core::v1::Namespace>(json!({ "metadata": { "name": name } }))
        .await;
    let resources = kube::Api::<capsule::api::v1beta2::TenantResource>::namespaced(env.client.clone(), &name);
    let spec = json!({ "resources": [], "serviceAccount": { "name": "default" } });
    let object = serde_json::from_value(json!({ "metadata": { "name": "r" }, "spec": spec })).unwrap();
    resources.create(&kube::api::PostParams::default(), &object).await.unwrap();
    env.until_failed(&resources, "r", "does not belong to a Tenant").await;
}
