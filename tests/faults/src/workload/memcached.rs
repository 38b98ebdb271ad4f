//! Workloads of Memcached.

use serde_json::{Value, json};

use super::{Goal, ObjectRef, Step, ThirdPartyChange, Workload, hold, strip};
use crate::kinds::{BUDGET, DEPLOYMENT, MEMCACHED, POD, SERVICE};

/// All workloads.
pub const ALL: &[Workload] = &[
    workload("create", |_| vec![], |run| vec![make(run, 2)], |run| has(run, 2)),
    workload("scale-up", |run| made(run, 1), |run| vec![scale(run, 3)], |run| has(run, 3)),
    workload("scale-down", |run| made(run, 3), |run| vec![scale(run, 1)], |run| has(run, 1)),
    workload("change", |run| made(run, 1), |run| vec![tune(run, json!(128))], tuned),
    workload("change-and-revert", |run| made(run, 2), change_and_revert, |run| has(run, 2)),
    workload("drift", |run| made(run, 2), |run| vec![drift(run)], |run| has(run, 2)),
    workload("service-deleted", |run| made(run, 2), |run| vec![at(&SERVICE, run).delete()], served),
    workload("recreate", |run| made(run, 2), recreate, |run| has(run, 2)),
    workload("delete", |run| made(run, 2), |run| vec![cache(run).delete()], gone),
];

/// Modifications by a third party.
pub const THIRD_PARTY_CHANGES: &[ThirdPartyChange] = &[
    ("deployment-deleted", |run| vec![at(&DEPLOYMENT, run).delete()]),
    ("service-deleted", |run| vec![at(&SERVICE, run).delete()]),
    ("service-held", |run| hold(at(&SERVICE, run))),
    ("deployment-held", |run| hold(at(&DEPLOYMENT, run))),
    ("budget-deleted", |run| vec![at(&BUDGET, run).delete()]),
    ("all-deleted", |run| [&DEPLOYMENT, &SERVICE, &BUDGET].map(|kind| at(kind, run).delete()).into()),
    ("labels-stomped", |run| strip(at(&SERVICE, run), json!({ "labels": null }))),
    ("image-changed", |run| vec![change_image(run)]),
];

const fn workload(
    name: &'static str,
    before: fn(&str) -> Vec<Step>,
    act: fn(&str) -> Vec<Step>,
    goals: fn(&str) -> Vec<Goal>,
) -> Workload {
    Workload { controller: "memcached", name, before, act, goals }
}

fn at(kind: &'static crate::kinds::Kind, run: &str) -> ObjectRef {
    ObjectRef::home(kind, run)
}

fn cache(run: &str) -> ObjectRef {
    at(&MEMCACHED, run)
}

fn make(run: &str, size: usize) -> Step {
    cache(run).with(json!({ "size": size }))
}

fn scale(run: &str, size: usize) -> Step {
    cache(run).change(json!({ "size": size }))
}

fn tune(run: &str, megabytes: Value) -> Step {
    cache(run).change(json!({ "memoryMegabytes": megabytes }))
}

fn has(run: &str, size: usize) -> Vec<Goal> {
    vec![
        cache(run).ready(),
        Goal::Has(cache(run), "/status/readyReplicas", json!(size)),
        Goal::Has(at(&DEPLOYMENT, run), "/status/readyReplicas", json!(size)),
        Goal::Has(at(&DEPLOYMENT, run), "/spec/replicas", json!(size)),
        Goal::Count(&DEPLOYMENT, 1),
        Goal::Count(&SERVICE, 1),
        Goal::Count(&BUDGET, usize::from(size > 1)),
        Goal::Count(&POD, size),
    ]
}

/// The rollout of the Deployment is complete.
fn tuned(run: &str) -> Vec<Goal> {
    let limit = "/spec/template/spec/containers/0/command/2";
    let mut goals = has(run, 1);
    goals.push(Goal::Has(at(&DEPLOYMENT, run), limit, json!("128")));
    goals
}

fn served(run: &str) -> Vec<Goal> {
    let mut goals = has(run, 2);
    goals.push(Goal::Has(at(&SERVICE, run), "/spec/clusterIP", json!("None")));
    goals
}

fn made(run: &str, size: usize) -> Vec<Step> {
    [make(run, size)].into_iter().chain(has(run, size).into_iter().map(Step::Until)).collect()
}

fn change_and_revert(run: &str) -> Vec<Step> {
    let four = has(run, 4).into_iter().map(Step::Until);
    [scale(run, 4)].into_iter().chain(four).chain([scale(run, 2)]).collect()
}

fn drift(run: &str) -> Step {
    at(&DEPLOYMENT, run).change(json!({ "replicas": 5, "revisionHistoryLimit": 7 }))
}

/// A third party changes the image of the Pods.
fn change_image(run: &str) -> Step {
    let container = json!({ "name": "memcached", "image": "example.com/other", "command": ["other"] });
    at(&DEPLOYMENT, run).change(json!({ "template": { "spec": { "containers": [container] } } }))
}

fn recreate(run: &str) -> Vec<Step> {
    let gone = gone(run).into_iter().map(Step::Until);
    [cache(run).delete()].into_iter().chain(gone).chain([make(run, 2)]).collect()
}

fn gone(run: &str) -> Vec<Goal> {
    let mut goals = vec![cache(run).gone()];
    goals.extend([&DEPLOYMENT, &SERVICE, &BUDGET, &POD].map(|kind| Goal::Count(kind, 0)));
    goals
}
