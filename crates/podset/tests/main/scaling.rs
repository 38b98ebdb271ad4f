//! The number of Pods follows the spec, with the minimum of requests.

use k8s_openapi::{
    api::core::v1::{PodSecurityContext, SecurityContext},
    jiff::Timestamp,
};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

use crate::support::{GARBAGE_COLLECTION_TIMEOUT, TIMEOUT, TestEnv};

#[tokio::test]
async fn tutorial_works() {
    let env = TestEnv::new().await;
    env.create("podset-sample", json!({"replicas": 3})).await;
    let ready = env.until_ready("podset-sample", 3).await;
    let status = ready.status.unwrap();
    assert_eq!(status.pod_names, ["podset-sample-pod-1", "podset-sample-pod-2", "podset-sample-pod-3"]);

    for replicas in [5, 1] {
        let patch = format!(r#"[{{"op": "replace", "path": "/spec/replicas", "value": {replicas}}}]"#);
        env.kubectl(&["patch", "podset", "podset-sample", "--type=json", "-p", &patch]).await.unwrap();
        env.until_ready("podset-sample", replicas).await;
    }

    env.kubectl(&["delete", "podset", "podset-sample"]).await.unwrap();
    cluster::wait::eventually(
        "the Pods to be deleted with their PodSet",
        GARBAGE_COLLECTION_TIMEOUT,
        async || {
            let left = env.pod_names().await;
            Ok(if left.is_empty() { Ok(()) } else { Err(left) })
        },
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn kubectl_scales_and_prints_columns() {
    let env = TestEnv::new().await;
    env.create("web", json!({})).await;
    env.until_ready("web", 1).await;
    env.kubectl(&["scale", "podset", "web", "--replicas=2"]).await.unwrap();
    env.until_ready("web", 2).await;
    let table = env.kubectl(&["get", "ps", "web"]).await.unwrap();
    let cells: Vec<_> = table.split_whitespace().take(9).collect();
    assert_eq!(cells, ["NAME", "DESIRED", "AVAILABLE", "READY", "AGE", "web", "2", "2", "2"]);
}

#[tokio::test]
async fn replaces_deleted_pods() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 2})).await;
    let before = env.until_ready("web", 2).await.status.unwrap().pod_names;
    let deleted = env.pods().get(&before[0]).await.unwrap();
    env.pods().delete(&before[0], &DeleteParams::default()).await.unwrap();
    cluster::wait::eventually("another Pod", TIMEOUT, async || {
        let names = env.pod_names().await;
        let replaced = env.pods().get_opt(&before[0]).await?.is_none_or(|pod| pod.uid() != deleted.uid());
        Ok(if replaced && names.len() == 2 { Ok(()) } else { Err(names) })
    })
    .await
    .unwrap();
    env.until_ready("web", 2).await;
}

#[tokio::test]
async fn replaces_and_keeps_finished_pods() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 1})).await;
    env.until_ready("web", 1).await;
    let patch = r#"{"status":{"phase":"Failed"}}"#;
    env.kubectl(&["patch", "pod", "web-pod-1", "--subresource=status", "--type=merge", "-p", patch])
        .await
        .unwrap();
    let set = env
        .until("web", "a new Pod", |set| {
            set.status.as_ref().is_some_and(|status| status.pod_names == ["web-pod-2"])
        })
        .await;
    assert_eq!(set.status.unwrap().available_replicas, 1);
    assert_eq!(env.pod_names().await, ["web-pod-1", "web-pod-2"]);
}

#[tokio::test]
async fn writes_nothing_when_nothing_changed() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 3})).await;
    env.until_ready("web", 3).await;
    // Events are written asynchronously.
    let writes = || {
        let writes = env.harness.requests_in(&env.namespace).unwrap().writes();
        writes.filter(|entry| entry.resource != "events").entries
    };
    let of = |resource: &str| writes().iter().filter(|entry| entry.resource == resource).count();
    assert_eq!(of("pods"), 3);
    let sets = of("podsets");
    assert!(sets <= 3, "{sets} status writes");

    // The reconcile of another PodSet shows that the controller has processed later events.
    let began = Timestamp::now();
    env.create("other", json!({"replicas": 1})).await;
    env.until_ready("other", 1).await;
    let since: Vec<_> = writes().into_iter().filter(|entry| entry.time > began).collect();
    assert!(!since.is_empty() && since.iter().all(|entry| entry.name.starts_with("other")), "{since:?}");
    let reads = env.harness.requests_in(&env.namespace).unwrap().filter(|entry| entry.verb == "get");
    assert_eq!(reads.entries, [], "a PodSet needs no reads");
}

#[tokio::test]
async fn deletes_the_pod_with_the_lowest_deletion_cost_first() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 3})).await;
    env.until_ready("web", 3).await;
    env.kubectl(&["annotate", "pod", "web-pod-2", "controller.kubernetes.io/pod-deletion-cost=-10"])
        .await
        .unwrap();
    env.kubectl(&["scale", "podset", "web", "--replicas=2"]).await.unwrap();
    let names = env.until_ready("web", 2).await.status.unwrap().pod_names;
    assert_eq!(names, ["web-pod-1", "web-pod-3"]);
    cluster::wait::eventually("the Events", TIMEOUT, async || {
        let events = (env.events("SuccessfulCreate").await, env.events("SuccessfulDelete").await);
        let mut created: Vec<_> = events.0.iter().flat_map(|note| note.split([' ', ','])).collect();
        created.retain(|name| name.starts_with("web-pod-"));
        let is_complete =
            created == ["web-pod-1", "web-pod-2", "web-pod-3"] && events.1 == ["Deleted web-pod-2"];
        Ok(if is_complete { Ok(()) } else { Err(events) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn pod_spec_equals_the_template() {
    let env = TestEnv::new().await;
    let template = "{template: {spec: {containers: \
        [{name: main, image: example.com/main, resources: {limits: {cpu: 1}}}]}}}";
    env.write_manifest("web", template).await.unwrap();
    env.until_ready("web", 1).await;
    let pod = env.pods().get("web-pod-1").await.unwrap().spec.unwrap();
    assert_eq!(pod.containers[0].image.as_deref(), Some("example.com/main"));
    let limits = pod.containers[0].resources.as_ref().unwrap().limits.as_ref().unwrap();
    assert_eq!(limits["cpu"].0, "1", "a quantity can be a number");
    assert_eq!(pod.security_context.unwrap_or_default(), PodSecurityContext::default());
    assert_eq!(pod.containers[0].security_context, None);

    let template =
        "{template: {spec: {containers: [{name: a, image: a, securityContext: {privileged: true}}]}}}";
    env.write_manifest("privileged", template).await.unwrap();
    env.until_ready("privileged", 1).await;
    let pod = env.pods().get("privileged-pod-1").await.unwrap().spec.unwrap();
    let context = SecurityContext { privileged: Some(true), ..SecurityContext::default() };
    assert_eq!(pod.containers[0].security_context, Some(context));
}
