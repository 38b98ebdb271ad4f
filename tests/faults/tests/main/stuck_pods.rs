//! A stuck Pod of a simulated node can be retried.

use cluster::{Cluster, Options, wait::eventually};
use faults::stuck_pods::StuckPodRetrier;
use k8s_openapi::api::{authorization::v1::SubjectAccessReview, core::v1::Pod, rbac::v1::ClusterRole};
use kube::{Api, Client, api::PostParams};
use serde_json::json;

use crate::support::PATIENCE;

/// ClusterRole of simulated nodes.
const ROLE: &str = "ensemble:kwok";

/// Replaces the ClusterRole of simulated nodes and waits until it takes effect for the status of
/// Pods.
async fn allow(client: &Client, role: &ClusterRole, may: bool) {
    let roles = Api::<ClusterRole>::all(client.clone());
    let mut role = role.clone();
    role.metadata.resource_version = None;
    roles.replace(ROLE, &PostParams::default(), &role).await.unwrap();
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let asked = json!({ "verb": "patch", "resource": "pods", "subresource": "status" });
    let review = json!({ "metadata": {}, "spec": { "user": "system:kwok", "resourceAttributes": asked } });
    let review = serde_json::from_value(review).unwrap();
    eventually("the permissions of simulated nodes to change", PATIENCE, async || {
        let review = reviews.create(&PostParams::default(), &review).await?;
        Ok(review.status.is_some_and(|status| status.allowed == may))
    })
    .await
    .unwrap();
}

async fn phase(pods: &Api<Pod>) -> String {
    pods.get_status("a").await.unwrap().status.unwrap().phase.unwrap()
}

#[tokio::test]
async fn stuck_pod_runs_after_retry() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let rights = Api::<ClusterRole>::all(client.clone()).get(ROLE).await.unwrap();
    let mut fewer = rights.clone();
    for rule in fewer.rules.iter_mut().flatten() {
        rule.resources.iter_mut().flatten().filter(|it| *it == "pods/status").for_each(|it| it.push('x'));
    }
    allow(&client, &fewer, false).await;

    // kwok does not retry after a rejected request.
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let spec = json!({ "containers": [{ "name": "a", "image": "example.com/a" }] });
    let pod = serde_json::from_value(json!({ "metadata": { "name": "a" }, "spec": spec })).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let log = cluster.record().dir.join("kwok.log");
    eventually("the node to give up on the Pod", PATIENCE, async || {
        let log_text = std::fs::read_to_string(&log)?;
        Ok(log_text.lines().any(|line| line.contains("failed to apply stage") && line.contains("default/a")))
    })
    .await
    .unwrap();
    allow(&client, &rights, true).await;
    assert_eq!(phase(&pods).await, "Pending");

    let mut retrier = StuckPodRetrier::new(client, "default");
    eventually("the Pod to run", PATIENCE, async || {
        retrier.look().await;
        let phase = phase(&pods).await;
        Ok(if phase == "Running" { Ok(()) } else { Err(phase) })
    })
    .await
    .unwrap();
}
