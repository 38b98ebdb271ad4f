//! When pods are ready, and when their PodSet is.

use cluster::wait::eventually;
use k8s_openapi::{
    api::core::v1::Pod,
    jiff::{SignedDuration, Timestamp},
};
use kube::api::ListParams;
use operator_core::conditions::find;
use podset::PodSet;
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, said};

/// What keeps a simulated pod from being ready, as long as it is there.
const NEVER_READY: &str = "ensemble.test/never-ready";

fn template(annotations: &Value) -> Value {
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Since when the pod is ready.
fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

async fn last_ready(world: &World) -> Timestamp {
    let pods = world.pods().list(&ListParams::default()).await.unwrap().items;
    pods.iter().map(|pod| ready_since(pod).expect("all are ready")).max().unwrap()
}

#[tokio::test]
async fn pods_that_are_there_and_pods_that_are_ready_are_counted_apart() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 2, "template": template(&json!({NEVER_READY: "true"}))})).await;
    eventually("the pods to run", PATIENCE, async || {
        let pods = world.pods().list(&ListParams::default()).await?.items;
        let phases: Vec<_> = pods.into_iter().filter_map(|pod| pod.status?.phase).collect();
        Ok(if phases == ["Running", "Running"] { Ok(()) } else { Err(phases) })
    })
    .await
    .unwrap();
    let set = world.until_waiting("web", "PodsNotReady").await;
    let status = set.status.clone().unwrap();
    assert_eq!((status.available_replicas, status.replicas, status.ready_replicas), (2, 2, 0));
    let message = said(&set, "Ready", "False").unwrap();
    let command = format!("kubectl describe pod --namespace={} web-pod-1 web-pod-2", world.namespace.name());
    assert!(message.contains(&command), "{message}");

    world.kubectl(&["annotate", "pod", "web-pod-1", &format!("{NEVER_READY}-")]).await.unwrap();
    let one = |set: &PodSet| set.status.as_ref().is_some_and(|status| status.ready_replicas == 1);
    let set = world.until("web", "one pod to be ready", one).await;
    assert!(said(&set, "Ready", "False").unwrap().starts_with("1 of 2 pods are ready"));
    world.kubectl(&["annotate", "pod", "web-pod-2", &format!("{NEVER_READY}-")]).await.unwrap();
    assert_eq!(world.until_ready("web", 2).await.status.unwrap().ready_replicas, 2);
}

#[tokio::test]
async fn a_set_is_ready_when_all_its_pods_have_been_for_min_ready_seconds_and_says_so_in_one_write() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 2, "minReadySeconds": 4})).await;
    let set = world.until_waiting("web", "MinReadySeconds").await;
    let seen = Timestamp::now();
    let status = set.status.clone().unwrap();
    assert_eq!((status.available_replicas, status.ready_replicas), (2, 2), "numbers do not wait");
    assert!(said(&set, "Progressing", "True").is_some());
    let proven = last_ready(&world).await.checked_add(SignedDuration::from_secs(4)).unwrap();
    let message = said(&set, "Ready", "False").unwrap();
    assert!(message.contains(&proven.to_string()), "{message} should tell of {proven}");

    let ready = world.until_ready("web", 2).await.status.unwrap();
    let since = find(&ready.conditions, "Ready").unwrap().last_transition_time.0;
    assert!(since >= proven, "Ready since {since}, before {proven}");
    // The log may have the write after the watch has shown it.
    eventually("one write, and none while nothing but time passed", PATIENCE, async || {
        let requests = world.harness.requests_in(&world.namespace)?.writes();
        let writes = requests.filter(|entry| entry.resource == "podsets" && entry.time > seen).entries;
        Ok(if writes.len() == 1 { Ok(()) } else { Err(writes) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_pod_that_fails_meanwhile_has_its_time_begin_anew() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 2, "minReadySeconds": 3600})).await;
    world.until_waiting("web", "MinReadySeconds").await;
    let before = last_ready(&world).await;
    world.kubectl(&["annotate", "pod", "web-pod-1", &format!("{NEVER_READY}=true")]).await.unwrap();
    world.until_waiting("web", "PodsNotReady").await;
    // Times of conditions have whole seconds.
    eventually("a second to pass", PATIENCE, async || Ok(Timestamp::now().as_second() > before.as_second()))
        .await
        .unwrap();
    world.kubectl(&["annotate", "pod", "web-pod-1", &format!("{NEVER_READY}-")]).await.unwrap();
    let set = world.until_waiting("web", "MinReadySeconds").await;
    let anew = last_ready(&world).await;
    assert!(anew > before);
    let proven = anew.checked_add(SignedDuration::from_hours(1)).unwrap();
    assert!(said(&set, "Ready", "False").unwrap().contains(&proven.to_string()));

    let patch = r#"{"spec":{"minReadySeconds":0}}"#;
    world.kubectl(&["patch", "podset", "web", "--type=merge", "-p", patch]).await.unwrap();
    world.until_ready("web", 2).await;
}
