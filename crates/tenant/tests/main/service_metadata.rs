//! Metadata of Services that exist before the Tenant sets it.

use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::support::TestEnv;

fn service() -> Service {
    let service = json!({
        "metadata": { "name": "web", "labels": { "app": "web" } }, "spec": { "ports": [{ "port": 80 }] },
    });
    serde_json::from_value(service).unwrap()
}

fn spec_with_label(team: &str) -> Value {
    json!({ "serviceOptions": { "additionalMetadata": { "labels": { "team": team } } } })
}

fn has_label(team: &str) -> impl Fn(&Service) -> bool {
    move |service| service.labels().get("team").is_some_and(|there| there == team)
}

#[tokio::test]
async fn updates_existing_services_when_tenant_changes_or_namespace_joins() {
    let env = TestEnv::new().await;
    env.ready(json!({}), &["a"]).await;
    env.api::<Service>(&env.prefixed("a")).create(&PostParams::default(), &service()).await.unwrap();
    env.change(spec_with_label("oil")).await;
    let updated = env.until_object::<Service>("a", "web", "to be updated", has_label("oil")).await;
    assert_eq!(updated.labels()["app"], "web");

    let joins = env.prefixed("b");
    env.namespace("b", json!({})).await;
    env.api::<Service>(&joins).create(&PostParams::default(), &service()).await.unwrap();
    let tenant = env.tenants().get(&env.name).await.unwrap();
    let member = json!({ "labels": crate::support::label(&env.name), "ownerReferences": [crate::support::reference(&tenant)] });
    env.patch_namespace("b", member).await;
    env.until_object::<Service>("b", "web", "to be updated", has_label("oil")).await;
    env.until_ready(&["a", "b"]).await;
}
