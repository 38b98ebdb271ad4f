//! Failures are reported, and the PodSet recovers from them.

use cluster::wait::eventually;
use harness::Instance;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use podset::PodSetController;
use serde_json::json;

use crate::support::{TIMEOUT, TestEnv, condition_message};

#[tokio::test]
async fn reports_an_exceeded_quota_once_and_recovers() {
    let env = TestEnv::new().await;
    let quotas = Api::<ResourceQuota>::namespaced(env.client.clone(), &env.namespace);
    let quota =
        serde_json::from_value(json!({"metadata": {"name": "tight"}, "spec": {"hard": {"pods": "1"}}}));
    quotas.create(&PostParams::default(), &quota.unwrap()).await.unwrap();
    eventually("the quota to be enforced", TIMEOUT, async || {
        Ok(quotas.get("tight").await?.status.is_some_and(|status| status.hard.is_some()))
    })
    .await
    .unwrap();

    env.create("web", json!({"replicas": 2})).await;
    let set = env
        .until("web", "the failure to be reported", |set| {
            condition_message(set, "ReplicaFailure", "True").is_some()
        })
        .await;
    let message = condition_message(&set, "ReplicaFailure", "True").unwrap();
    assert!(message.contains("exceeded quota: tight"), "{message}");
    assert!(
        message.ends_with("raise the quota, delete objects that count against it, or lower spec.replicas"),
        "{message}"
    );
    assert!(condition_message(&set, "Ready", "False").is_some());
    eventually("an Event", TIMEOUT, async || Ok(!env.events("FailedCreate").await.is_empty())).await.unwrap();
    let responses = |resource: &str, code: u16| {
        let requests = env.harness.requests_in(&env.namespace).unwrap().writes();
        requests.filter(|entry| entry.resource == resource && entry.code == code).entries.len()
    };
    eventually("four attempts", TIMEOUT, async || Ok(responses("pods", 403) >= 4)).await.unwrap();
    assert_eq!(env.events("FailedCreate").await.len(), 1, "one cause is one Event");
    assert_eq!(responses("events", 200), 0, "the Event is not updated");
    assert_eq!(env.events("SuccessfulCreate").await, ["Created web-pod-1"]);

    quotas.delete("tight", &DeleteParams::default()).await.unwrap();
    let set = env.until_ready("web", 2).await;
    assert!(condition_message(&set, "ReplicaFailure", "False").is_some());
}

#[tokio::test]
async fn reports_an_invalid_template_with_the_remedy() {
    let env = TestEnv::new().await;
    let template = json!({"spec": {"containers": [{"name": "c", "image": " i"}]}});
    env.create("web", json!({"template": template})).await;
    let set = env.until_not_ready("web", "FailedCreate").await;
    let message = condition_message(&set, "ReplicaFailure", "True").unwrap();
    assert!(message.contains("spec.containers[0].image: Invalid value"), "{message}");
    assert!(message.ends_with("; correct spec.template"), "{message}");
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    env.kubectl(&["patch", "podset", "web", "--type=merge", "-p", patch]).await.unwrap();
    let set = env.until_ready("web", 1).await;
    assert!(condition_message(&set, "ReplicaFailure", "False").is_some());
}

#[tokio::test]
async fn terminating_namespace_causes_no_errors() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 2})).await;
    env.until_ready("web", 2).await;
    let namespaces = Api::<Namespace>::all(env.client.clone());
    namespaces.delete(&env.namespace, &DeleteParams::default()).await.unwrap();
    eventually("the namespace to be gone", 2 * TIMEOUT, async || {
        Ok(namespaces.get_opt(&env.namespace).await?.is_none())
    })
    .await
    .unwrap();
    let requests = env.harness.requests_in(&env.namespace).unwrap().entries;
    let events = requests.iter().filter(|entry| entry.resource == "events").count();
    assert_eq!(events, 1, "only the Event of the first creates: {requests:?}");
    let attempts = requests.iter().filter(|entry| entry.code == 403).count();
    assert!(attempts <= 20, "{attempts} attempts, more than one for each change of a Pod");
}

#[tokio::test]
async fn several_managers_create_no_surplus_pod() {
    let env = TestEnv::new().await;
    let others = [
        Instance::of::<PodSetController>(&env.harness, &env.namespace).await.unwrap(),
        Instance::of::<PodSetController>(&env.harness, &env.namespace).await.unwrap(),
    ];
    for name in ["a", "b", "c"] {
        env.create(name, json!({"replicas": 5})).await;
    }
    for name in ["a", "b", "c"] {
        env.until_ready(name, 5).await;
    }
    drop(others);
    let created = env.harness.requests_in(&env.namespace).unwrap();
    let created =
        created.filter(|entry| entry.verb == "create" && entry.resource == "pods" && entry.code == 201);
    assert_eq!(created.entries.len(), 15);
    assert_eq!(env.pods().list(&ListParams::default()).await.unwrap().items.len(), 15);
}
