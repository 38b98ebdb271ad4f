//! Events: one for each cause.

use cluster::wait::eventually;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::support::{TIMEOUT, TestEnv};

/// Returns the notes of the Events with this reason about the NamespacePlus, once for each
/// occurrence in a series.
async fn notes(env: &TestEnv, reason: &str) -> Vec<String> {
    let all = Api::<Event>::namespaced(env.client.clone(), &env.home);
    let events = all.list(&ListParams::default()).await.unwrap().items.into_iter();
    let about = events.filter(|event| {
        let regarding = event.regarding.clone().unwrap_or_default();
        event.reason.as_deref() == Some(reason) && regarding.name.as_ref() == Some(&env.name)
    });
    about
        .flat_map(|event| {
            let times = event.series.map_or(1, |series| series.count);
            vec![event.note.unwrap_or_default(); usize::try_from(times).unwrap()]
        })
        .collect()
}

/// Waits for an Event with this reason and returns its note. Fails if there are several.
pub(crate) async fn single_event(env: &TestEnv, reason: &str) -> String {
    eventually(&format!("an Event {reason}"), TIMEOUT, async || Ok(!notes(env, reason).await.is_empty()))
        .await
        .unwrap();
    let [note] = notes(env, reason).await.try_into().expect("one Event for one cause");
    note
}

#[tokio::test]
async fn records_one_event_for_foreign_namespace() {
    let env = TestEnv::new().await;
    env.foreign_namespace(json!({})).await;
    env.create(json!({})).await;
    env.until_false("NamespaceReady", "NotOwned").await;
    for pods in 1..5 {
        env.change(json!({ "quota": { "pods": pods } })).await;
        env.until("the spec to be observed", |object| {
            let status = object.status.clone().unwrap_or_default();
            status.observed_generation == object.metadata.generation
        })
        .await;
    }
    let note = single_event(&env, "NotOwned").await;
    assert!(note.contains("kubectl annotate namespace"), "{note}");
}

#[tokio::test]
async fn records_created_and_released_events_once() {
    let env = TestEnv::new().await;
    env.ready(json!({})).await;
    env.change(json!({ "labels": { "team": "blue" } })).await;
    env.until_ready().await;
    assert_eq!(single_event(&env, "Created").await, format!("created namespace {}", env.name));
    env.all().delete(&env.name, &DeleteParams::default()).await.unwrap();
    env.until_deleted().await;
    assert_eq!(
        single_event(&env, "Released").await,
        format!("released namespace {}; it stays unchanged", env.name)
    );
}

#[tokio::test]
async fn records_deleting_event_once() {
    let env = TestEnv::new().await;
    env.ready(json!({ "deletionPolicy": "Delete" })).await;
    env.all().delete(&env.name, &DeleteParams::default()).await.unwrap();
    env.until_deleted().await;
    let note = single_event(&env, "Deleting").await;
    assert_eq!(note, format!("deleting namespace {}", env.name));
}

#[tokio::test]
async fn records_one_event_for_forbidden_role_despite_retries() {
    let env = TestEnv::new().await;
    let root = json!([{"name": "root", "clusterRole": "cluster-admin", "subjects": [{"kind": "User", "name": "ada"}]}]);
    env.create(json!({ "roleBindings": root })).await;
    env.until_false("AccessReady", "Denied").await;
    let max_attempts = || {
        let requests = env.harness.requests_in(&env.name).unwrap();
        requests.filter(|entry| entry.resource == "rolebindings" && entry.code == 403).entries.len()
    };
    eventually("the write to be retried", TIMEOUT, async || Ok(max_attempts() > 2)).await.unwrap();
    let note = single_event(&env, "ReconcileFailed").await;
    assert!(note.contains("cannot create RoleBinding"), "{note}");
}
