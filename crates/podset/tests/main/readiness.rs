//! Readiness of Pods and of their PodSet.

use cluster::wait::eventually;
use k8s_openapi::{
    api::core::v1::Pod,
    jiff::{SignedDuration, Timestamp},
};
use kube::api::ListParams;
use operator_core::conditions::find;
use podset::PodSet;
use serde_json::{Value, json};

use crate::support::{TIMEOUT, TestEnv, condition_message};

/// Annotation that keeps a simulated Pod from becoming ready.
const NEVER_READY: &str = "ensemble.test/never-ready";

fn template(annotations: &Value) -> Value {
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Returns the time since which the Pod is ready.
fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

async fn last_ready(env: &TestEnv) -> Timestamp {
    let pods = env.pods().list(&ListParams::default()).await.unwrap().items;
    pods.iter().map(|pod| ready_since(pod).expect("the Pod is ready")).max().unwrap()
}

#[tokio::test]
async fn counts_existing_and_ready_pods_separately() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 2, "template": template(&json!({NEVER_READY: "true"}))})).await;
    eventually("the Pods to run", TIMEOUT, async || {
        let pods = env.pods().list(&ListParams::default()).await?.items;
        let phases: Vec<_> = pods.into_iter().filter_map(|pod| pod.status?.phase).collect();
        Ok(if phases == ["Running", "Running"] { Ok(()) } else { Err(phases) })
    })
    .await
    .unwrap();
    let set = env.until_not_ready("web", "PodsNotReady").await;
    let status = set.status.clone().unwrap();
    assert_eq!((status.available_replicas, status.replicas, status.ready_replicas), (2, 2, 0));
    let message = condition_message(&set, "Ready", "False").unwrap();
    let command = format!("kubectl describe pod --namespace={} web-pod-1 web-pod-2", env.namespace.name());
    assert!(message.contains(&command), "{message}");

    env.kubectl(&["annotate", "pod", "web-pod-1", &format!("{NEVER_READY}-")]).await.unwrap();
    let one = |set: &PodSet| set.status.as_ref().is_some_and(|status| status.ready_replicas == 1);
    let set = env.until("web", "one pod to be ready", one).await;
    assert!(condition_message(&set, "Ready", "False").unwrap().starts_with("1 of 2 Pods are ready"));
    env.kubectl(&["annotate", "pod", "web-pod-2", &format!("{NEVER_READY}-")]).await.unwrap();
    assert_eq!(env.until_ready("web", 2).await.status.unwrap().ready_replicas, 2);
}

#[tokio::test]
async fn ready_waits_for_min_ready_seconds_with_one_status_write() {
    let env = TestEnv::new().await;
    // A status that only tells of progress can be written several seconds late, while other sets are not ready.
    env.create("web", json!({"replicas": 2, "minReadySeconds": 15})).await;
    let set = env.until_not_ready("web", "MinReadySeconds").await;
    let seen = Timestamp::now();
    let status = set.status.clone().unwrap();
    assert_eq!((status.available_replicas, status.ready_replicas), (2, 2), "counts do not wait");
    assert!(condition_message(&set, "Progressing", "True").is_some());
    let ready_at = last_ready(&env).await.checked_add(SignedDuration::from_secs(15)).unwrap();
    let message = condition_message(&set, "Ready", "False").unwrap();
    assert!(message.contains(&ready_at.to_string()), "{message} should contain {ready_at}");

    let ready = env.until_ready("web", 2).await.status.unwrap();
    let since = find(&ready.conditions, "Ready").unwrap().last_transition_time.0;
    assert!(since >= ready_at, "Ready since {since}, before {ready_at}");
    // The write can appear in the audit log after the watch event.
    eventually("exactly one status write", TIMEOUT, async || {
        let requests = env.harness.requests_in(&env.namespace)?.writes();
        let writes = requests.filter(|entry| entry.resource == "podsets" && entry.time > seen).entries;
        Ok(if writes.len() == 1 { Ok(()) } else { Err(writes) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn failed_pod_restarts_min_ready_seconds() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 2, "minReadySeconds": 3600})).await;
    env.until_not_ready("web", "MinReadySeconds").await;
    let before = last_ready(&env).await;
    env.kubectl(&["annotate", "pod", "web-pod-1", &format!("{NEVER_READY}=true")]).await.unwrap();
    env.until_not_ready("web", "PodsNotReady").await;
    // Transition times have a resolution of one second.
    eventually("a second to pass", TIMEOUT, async || Ok(Timestamp::now().as_second() > before.as_second()))
        .await
        .unwrap();
    env.kubectl(&["annotate", "pod", "web-pod-1", &format!("{NEVER_READY}-")]).await.unwrap();
    let set = env.until_not_ready("web", "MinReadySeconds").await;
    let after = last_ready(&env).await;
    assert!(after > before);
    let ready_at = after.checked_add(SignedDuration::from_hours(1)).unwrap();
    assert!(condition_message(&set, "Ready", "False").unwrap().contains(&ready_at.to_string()));

    let patch = r#"{"spec":{"minReadySeconds":0}}"#;
    env.kubectl(&["patch", "podset", "web", "--type=merge", "-p", patch]).await.unwrap();
    env.until_ready("web", 2).await;
}
