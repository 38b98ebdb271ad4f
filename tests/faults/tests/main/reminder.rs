//! That a simulated node which has given up on a pod can be reminded of it.

use cluster::{Cluster, Options, wait::eventually};
use faults::reminder::Reminder;
use k8s_openapi::api::{authorization::v1::SubjectAccessReview, core::v1::Pod, rbac::v1::ClusterRole};
use kube::{Api, Client, api::PostParams};
use serde_json::json;

use crate::support::PATIENCE;

/// What simulated nodes may do.
const ROLE: &str = "ensemble:kwok";

/// Replaces what simulated nodes may do, and waits until that counts for the status of pods.
async fn allow(client: &Client, role: &ClusterRole, may: bool) {
    let roles = Api::<ClusterRole>::all(client.clone());
    let mut role = role.clone();
    role.metadata.resource_version = None;
    roles.replace(ROLE, &PostParams::default(), &role).await.unwrap();
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let asked = json!({ "verb": "patch", "resource": "pods", "subresource": "status" });
    let review = json!({ "metadata": {}, "spec": { "user": "system:kwok", "resourceAttributes": asked } });
    let review = serde_json::from_value(review).unwrap();
    eventually("the rights of simulated nodes to be others", PATIENCE, async || {
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
async fn a_pod_that_its_node_has_given_up_on_runs_after_a_reminder() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let rights = Api::<ClusterRole>::all(client.clone()).get(ROLE).await.unwrap();
    let mut fewer = rights.clone();
    for rule in fewer.rules.iter_mut().flatten() {
        rule.resources.iter_mut().flatten().filter(|it| *it == "pods/status").for_each(|it| it.push('x'));
    }
    allow(&client, &fewer, false).await;

    // A refusal is one of the answers after which kwok does not try again.
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let spec = json!({ "containers": [{ "name": "a", "image": "example.com/a" }] });
    let pod = serde_json::from_value(json!({ "metadata": { "name": "a" }, "spec": spec })).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let log = cluster.record().dir.join("kwok.log");
    eventually("the node to give up", PATIENCE, async || {
        let said = std::fs::read_to_string(&log)?;
        Ok(said.lines().any(|line| line.contains("failed to apply stage") && line.contains("default/a")))
    })
    .await
    .unwrap();
    allow(&client, &rights, true).await;
    assert_eq!(phase(&pods).await, "Pending");

    let mut reminder = Reminder::new(client, "default");
    eventually("the pod to run", PATIENCE, async || {
        reminder.look().await;
        let phase = phase(&pods).await;
        Ok(if phase == "Running" { Ok(()) } else { Err(phase) })
    })
    .await
    .unwrap();
}
