//! The oracle detects runs that a third party manipulates.

use std::{sync::Arc, time::Duration};

use faults::{
    baseline::baseline,
    injection::Injection,
    kinds::{POD, POD_SET},
    plan::Planned,
    run::{Verdict, record, try_fault},
    test_cluster::TestCluster,
    worker::Worker,
    workload::{self, ObjectRef, Step},
};
use serde_json::json;

use crate::support::program;

fn modified(steps: fn(&str) -> Vec<Step>) -> Planned {
    let id = "podset/create/F19/spoilt".parse().unwrap();
    Planned { id, injection: Injection::Modify(steps), description: "spoilt".to_owned() }
}

/// A Pod that no client deletes.
fn foreign_pod(run: &str) -> Vec<Step> {
    let container = json!({ "name": "a", "image": "example.com/a" });
    vec![ObjectRef::home(&POD, &format!("{run}-stranger")).with(json!({ "containers": [container] }))]
}

/// A Pod with an owner reference that names the PodSet but was not created by its controller.
fn surplus(run: &str) -> Vec<Step> {
    let labels = json!({ "app": run, "version": "v0.1" });
    let container = json!({ "name": "a", "image": "example.com/a" });
    let metadata = json!({ "name": format!("{run}-pod-9"), "namespace": workload::HOME, "labels": labels });
    vec![Step::Create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": { "containers": [container] },
    }))]
}

async fn verdict_of(worker: &Worker, steps: fn(&str) -> Vec<Step>) -> Verdict {
    let create = &workload::of("podset")[0];
    let known = baseline(&[record(worker, create).await.unwrap()]).unwrap();
    try_fault(worker, create, &modified(steps), &known).await.unwrap()
}

#[tokio::test]
async fn detects_different_end_state_and_surplus_objects() {
    let test_cluster = TestCluster::start(&program(), Duration::from_secs(20)).await.unwrap();
    let worker = Worker::start(Arc::new(test_cluster), "podset").await.unwrap();

    let verdict = verdict_of(&worker, foreign_pod).await;
    assert!(
        verdict.difference.as_ref().is_some_and(|difference| difference.contains("stranger")),
        "{verdict:?}"
    );

    let scaled = |run: &str| vec![ObjectRef::home(&POD_SET, run).change(json!({ "replicas": 2 }))];
    let verdict = verdict_of(&worker, scaled).await;
    assert!(
        verdict.difference.as_ref().is_some_and(|difference| difference.contains("instead of")),
        "{verdict:?}"
    );

    // The controller adopts it and deletes a surplus Pod. In between there is one Pod too many.
    let verdict = verdict_of(&worker, surplus).await;
    assert!(verdict.violations.iter().any(|broken| broken.contains("4 live Pods")), "{verdict:?}");
}
