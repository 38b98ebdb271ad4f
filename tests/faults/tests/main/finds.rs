//! That the instrument finds what is wrong: runs that a third hand has spoilt on purpose.

use std::{sync::Arc, time::Duration};

use faults::{
    blow::Blow,
    kinds::{POD, POD_SET},
    lane::Lane,
    learn::reference,
    plan::Planned,
    run::{Verdict, look, try_fault},
    stage::Stage,
    workload::{self, Place, Step},
};
use serde_json::json;

use crate::support::program;

fn spoilt(steps: fn(&str) -> Vec<Step>) -> Planned {
    let id = "podset/create/F19/spoilt".parse().unwrap();
    Planned { id, blow: Blow::Disturb(steps), words: "spoilt".to_owned() }
}

/// A pod that nobody takes away again.
fn stranger(run: &str) -> Vec<Step> {
    let container = json!({ "name": "a", "image": "example.com/a" });
    vec![Place::home(&POD, &format!("{run}-stranger")).with(json!({ "containers": [container] }))]
}

/// A pod that says of itself that it is the PodSet's, made by somebody who is not its controller.
fn surplus(run: &str) -> Vec<Step> {
    let labels = json!({ "app": run, "version": "v0.1" });
    let container = json!({ "name": "a", "image": "example.com/a" });
    let metadata = json!({ "name": format!("{run}-pod-9"), "namespace": workload::HOME, "labels": labels });
    vec![Step::Create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": { "containers": [container] },
    }))]
}

async fn tried(lane: &Lane, steps: fn(&str) -> Vec<Step>) -> Verdict {
    let create = &workload::of("podset")[0];
    let known = reference(&[look(lane, create).await.unwrap()]).unwrap();
    try_fault(lane, create, &spoilt(steps), &known).await.unwrap()
}

#[tokio::test]
async fn what_differs_at_the_end_and_what_was_too_much_on_the_way_is_found() {
    let stage = Stage::start(&program(), Duration::from_secs(20)).await.unwrap();
    let lane = Lane::start(Arc::new(stage), "podset").await.unwrap();

    let verdict = tried(&lane, stranger).await;
    assert!(verdict.missed.as_ref().is_some_and(|missed| missed.contains("stranger")), "{verdict:?}");

    let scaled = |run: &str| vec![Place::home(&POD_SET, run).change(json!({ "replicas": 2 }))];
    let verdict = tried(&lane, scaled).await;
    assert!(verdict.missed.as_ref().is_some_and(|missed| missed.contains("instead of")), "{verdict:?}");

    // The controller adopts it and takes a surplus one away. In between there is one too many.
    let verdict = tried(&lane, surplus).await;
    assert!(verdict.violations.iter().any(|broken| broken.contains("4 pods live")), "{verdict:?}");
}
