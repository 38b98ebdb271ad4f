//! Events: one for each cause.

use cluster::wait::eventually;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::support::{PATIENCE, World};

/// Returns the notes of the Events with this reason about the NamespacePlus, once for each
/// occurrence in a series.
async fn notes(world: &World, reason: &str) -> Vec<String> {
    let all = Api::<Event>::namespaced(world.client.clone(), &world.home);
    let events = all.list(&ListParams::default()).await.unwrap().items.into_iter();
    let about = events.filter(|event| {
        let regarding = event.regarding.clone().unwrap_or_default();
        event.reason.as_deref() == Some(reason) && regarding.name.as_ref() == Some(&world.name)
    });
    about
        .flat_map(|event| {
            let times = event.series.map_or(1, |series| series.count);
            vec![event.note.unwrap_or_default(); usize::try_from(times).unwrap()]
        })
        .collect()
}

/// Waits for an Event with this reason and returns its note. Fails if there are several.
pub(crate) async fn only(world: &World, reason: &str) -> String {
    eventually(&format!("an Event {reason}"), PATIENCE, async || Ok(!notes(world, reason).await.is_empty()))
        .await
        .unwrap();
    let [note] = notes(world, reason).await.try_into().expect("one Event for one cause");
    note
}

#[tokio::test]
async fn a_namespace_that_cannot_be_had_is_told_once_however_often_it_is_looked_at() {
    let world = World::new().await;
    world.stranger(json!({})).await;
    world.create(json!({})).await;
    world.until_false("NamespaceReady", "NotOwned").await;
    for pods in 1..5 {
        world.change(json!({ "quota": { "pods": pods } })).await;
        world
            .until("the spec to be observed", |object| {
                let status = object.status.clone().unwrap_or_default();
                status.observed_generation == object.metadata.generation
            })
            .await;
    }
    let note = only(&world, "NotOwned").await;
    assert!(note.contains("kubectl annotate namespace"), "{note}");
}

#[tokio::test]
async fn what_happens_to_the_namespace_is_told_once() {
    let world = World::new().await;
    world.ready(json!({})).await;
    world.change(json!({ "labels": { "team": "blue" } })).await;
    world.until_ready().await;
    assert_eq!(only(&world, "Created").await, format!("created namespace {}", world.name));
    world.all().delete(&world.name, &DeleteParams::default()).await.unwrap();
    world.until_gone().await;
    assert_eq!(
        only(&world, "Released").await,
        format!("released namespace {}; it stays unchanged", world.name)
    );
}

#[tokio::test]
async fn that_the_namespace_goes_too_is_told_once() {
    let world = World::new().await;
    world.ready(json!({ "deletionPolicy": "Delete" })).await;
    world.all().delete(&world.name, &DeleteParams::default()).await.unwrap();
    world.until_gone().await;
    let note = only(&world, "Deleting").await;
    assert_eq!(note, format!("deleting namespace {}", world.name));
}

#[tokio::test]
async fn a_role_that_may_not_be_given_is_told_once_though_it_is_tried_again() {
    let world = World::new().await;
    let root = json!([{"name": "root", "clusterRole": "cluster-admin", "subjects": [{"kind": "User", "name": "ada"}]}]);
    world.create(json!({ "roleBindings": root })).await;
    world.until_false("AccessReady", "Refused").await;
    let tries = || {
        let requests = world.harness.requests_in(&world.name).unwrap();
        requests.filter(|entry| entry.resource == "rolebindings" && entry.code == 403).entries.len()
    };
    eventually("the write to be retried", PATIENCE, async || Ok(tries() > 2)).await.unwrap();
    let note = only(&world, "NotAsDeclared").await;
    assert!(note.contains("cannot create RoleBinding"), "{note}");
}
