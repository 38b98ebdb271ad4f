//! Services that are there before their Tenant wants something on them.

use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::support::World;

fn service() -> Service {
    let service = json!({
        "metadata": { "name": "web", "labels": { "app": "web" } }, "spec": { "ports": [{ "port": 80 }] },
    });
    serde_json::from_value(service).unwrap()
}

fn wants(team: &str) -> Value {
    json!({ "serviceOptions": { "additionalMetadata": { "labels": { "team": team } } } })
}

fn has(team: &str) -> impl Fn(&Service) -> bool {
    move |service| service.labels().get("team").is_some_and(|there| there == team)
}

#[tokio::test]
async fn they_get_it_when_the_tenant_changes_and_when_their_namespace_joins() {
    let world = World::new().await;
    world.ready(json!({}), &["a"]).await;
    world.api::<Service>(&world.named("a")).create(&PostParams::default(), &service()).await.unwrap();
    world.change(wants("oil")).await;
    let marked = world.until_object::<Service>("a", "web", "to be marked", has("oil")).await;
    assert_eq!(marked.labels()["app"], "web");

    let joins = world.named("b");
    world.namespace("b", json!({})).await;
    world.api::<Service>(&joins).create(&PostParams::default(), &service()).await.unwrap();
    let tenant = world.tenants().get(&world.name).await.unwrap();
    let member = json!({ "labels": crate::support::label(&world.name), "ownerReferences": [crate::support::reference(&tenant)] });
    world.patch_namespace("b", member).await;
    world.until_object::<Service>("b", "web", "to be marked", has("oil")).await;
    world.until_ready(&["a", "b"]).await;
}
