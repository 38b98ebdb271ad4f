//! The number of pods follows the spec, and nothing else happens.

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

use crate::support::{PATIENCE, UNTIL_COLLECTED, World};

#[tokio::test]
async fn the_walk_through_of_the_tutorial_works() {
    let world = World::new().await;
    world.create("podset-sample", json!({"replicas": 3})).await;
    let ready = world.until_ready("podset-sample", 3).await;
    let status = ready.status.unwrap();
    assert_eq!(status.pod_names, ["podset-sample-pod-1", "podset-sample-pod-2", "podset-sample-pod-3"]);

    for (value, want) in [(5, 5), (1, 1)] {
        let patch = format!(r#"[{{"op": "replace", "path": "/spec/replicas", "value": {value}}}]"#);
        world.kubectl(&["patch", "podset", "podset-sample", "--type=json", "-p", &patch]).await.unwrap();
        world.until_ready("podset-sample", want).await;
    }

    world.kubectl(&["delete", "podset", "podset-sample"]).await.unwrap();
    cluster::wait::eventually("the pods to go with their PodSet", UNTIL_COLLECTED, async || {
        let left = world.pod_names().await;
        Ok(if left.is_empty() { Ok(()) } else { Err(left) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn kubectl_scale_works_and_get_shows_the_columns() {
    let world = World::new().await;
    world.create("web", json!({})).await;
    world.until_ready("web", 1).await;
    world.kubectl(&["scale", "podset", "web", "--replicas=2"]).await.unwrap();
    world.until_ready("web", 2).await;
    let table = world.kubectl(&["get", "ps", "web"]).await.unwrap();
    let words: Vec<_> = table.split_whitespace().take(9).collect();
    assert_eq!(words, ["NAME", "DESIRED", "AVAILABLE", "READY", "AGE", "web", "2", "2", "2"]);
}

#[tokio::test]
async fn a_deleted_pod_is_replaced() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 2})).await;
    let before = world.until_ready("web", 2).await.status.unwrap().pod_names;
    let victim = world.pods().get(&before[0]).await.unwrap();
    world.pods().delete(&before[0], &DeleteParams::default()).await.unwrap();
    cluster::wait::eventually("another pod", PATIENCE, async || {
        let names = world.pod_names().await;
        let replaced = world.pods().get_opt(&before[0]).await?.is_none_or(|pod| pod.uid() != victim.uid());
        Ok(if replaced && names.len() == 2 { Ok(()) } else { Err(names) })
    })
    .await
    .unwrap();
    world.until_ready("web", 2).await;
}

#[tokio::test]
async fn a_finished_pod_is_replaced_and_kept() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 1})).await;
    world.until_ready("web", 1).await;
    let patch = r#"{"status":{"phase":"Failed"}}"#;
    world
        .kubectl(&["patch", "pod", "web-pod-1", "--subresource=status", "--type=merge", "-p", patch])
        .await
        .unwrap();
    let set = world
        .until("web", "a new pod", |set| {
            set.status.as_ref().is_some_and(|status| status.pod_names == ["web-pod-2"])
        })
        .await;
    assert_eq!(set.status.unwrap().available_replicas, 1);
    assert_eq!(world.pod_names().await, ["web-pod-1", "web-pod-2"]);
}

#[tokio::test]
async fn creating_three_pods_takes_three_creates_and_at_most_three_status_writes_and_then_there_is_silence() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 3})).await;
    world.until_ready("web", 3).await;
    // Events follow in the background.
    let writes = || {
        let writes = world.harness.requests_in(&world.namespace).unwrap().writes();
        writes.filter(|entry| entry.resource != "events").entries
    };
    let of = |resource: &str| writes().iter().filter(|entry| entry.resource == resource).count();
    assert_eq!(of("pods"), 3);
    let sets = of("podsets");
    assert!(sets <= 3, "{sets} status writes");

    // A change of another PodSet in the same informer shows that the controller has been awake since.
    let before = writes().len();
    world.create("other", json!({"replicas": 1})).await;
    world.until_ready("other", 1).await;
    let since = writes().split_off(before);
    assert!(since.iter().all(|entry| entry.name.starts_with("other")), "{since:?}");
    let reads = world.harness.requests_in(&world.namespace).unwrap().filter(|entry| entry.verb == "get");
    assert_eq!(reads.entries, [], "a PodSet costs no reads");
}

#[tokio::test]
async fn the_cheapest_pod_goes_first() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 3})).await;
    world.until_ready("web", 3).await;
    world
        .kubectl(&["annotate", "pod", "web-pod-2", "controller.kubernetes.io/pod-deletion-cost=-10"])
        .await
        .unwrap();
    world.kubectl(&["scale", "podset", "web", "--replicas=2"]).await.unwrap();
    let names = world.until_ready("web", 2).await.status.unwrap().pod_names;
    assert_eq!(names, ["web-pod-1", "web-pod-3"]);
    cluster::wait::eventually("Events of it", PATIENCE, async || {
        let told = (world.events("SuccessfulCreate").await, world.events("SuccessfulDelete").await);
        let mut made: Vec<_> = told.0.iter().flat_map(|note| note.split([' ', ','])).collect();
        made.retain(|word| word.starts_with("web-pod-"));
        let is_told = made == ["web-pod-1", "web-pod-2", "web-pod-3"] && told.1 == ["Deleted web-pod-2"];
        Ok(if is_told { Ok(()) } else { Err(told) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_template_is_run_as_it_is_written() {
    let world = World::new().await;
    let template = "{template: {spec: {containers: \
        [{name: main, image: example.com/main, resources: {limits: {cpu: 1}}}]}}}";
    world.write_manifest("web", template).await.unwrap();
    world.until_ready("web", 1).await;
    let pod = world.pods().get("web-pod-1").await.unwrap().spec.unwrap();
    assert_eq!(pod.containers[0].image.as_deref(), Some("example.com/main"));
    let limits = pod.containers[0].resources.as_ref().unwrap().limits.as_ref().unwrap();
    assert_eq!(limits["cpu"].0, "1", "a quantity may be written as a number");
    assert_eq!(pod.security_context.unwrap_or_default(), PodSecurityContext::default());
    assert_eq!(pod.containers[0].security_context, None);

    let template =
        "{template: {spec: {containers: [{name: a, image: a, securityContext: {privileged: true}}]}}}";
    world.write_manifest("privileged", template).await.unwrap();
    world.until_ready("privileged", 1).await;
    let pod = world.pods().get("privileged-pod-1").await.unwrap().spec.unwrap();
    let context = SecurityContext { privileged: Some(true), ..SecurityContext::default() };
    assert_eq!(pod.containers[0].security_context, Some(context));
}
