//! What others made is not touched.

use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use kube::{ResourceExt, api::PostParams};
use serde_json::json;

use crate::support::World;

#[tokio::test]
async fn an_object_of_the_same_name_is_left_alone_and_told() {
    let world = World::new().await;
    world.namespace("a", json!({})).await;
    let name = format!("capsule-{}-0", world.name);
    let theirs: LimitRange =
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": { "limits": [] } })).unwrap();
    let api = world.api::<LimitRange>(&world.named("a"));
    let theirs = api.create(&PostParams::default(), &theirs).await.unwrap();
    let tenant = world
        .create(json!({
            "limitRanges": { "items": [{ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] }] },
            "resourceQuotas": { "items": [{ "hard": { "pods": "10" } }] },
        }))
        .await;
    let reference = crate::support::reference(&tenant);
    let metadata = json!({ "labels": crate::support::label(&world.name), "ownerReferences": [reference] });
    world.patch_namespace("a", metadata).await;
    let words = format!("LimitRange {}/{name} exists and is not ours", world.named("a"));
    world.until_said("Ready", "False", &words).await;
    world.until_objects::<ResourceQuota>("a", "to be there all the same", |found| found.len() == 1).await;
    assert_eq!(api.get(&name).await.unwrap().resource_version(), theirs.resource_version());
    api.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    world.until_ready(&["a"]).await;
}
