//! Workloads of PodSet.

use serde_json::json;

use super::{Goal, ObjectRef, Step, ThirdPartyChange, Workload, hold, strip};
use crate::kinds::{POD, POD_SET};

/// All workloads.
pub const ALL: &[Workload] = &[
    workload("create", |_| vec![], |run| vec![make(run, 3)], |run| has(run, 3)),
    workload("scale-up", |run| made(run, 1), |run| vec![scale(run, 4)], |run| has(run, 4)),
    workload("scale-down", |run| made(run, 4), |run| vec![scale(run, 1)], |run| has(run, 1)),
    workload("change-and-revert", |run| made(run, 2), change_and_revert, |run| has(run, 2)),
    workload("pod-deleted", |run| made(run, 3), |run| vec![pod(run).delete()], |run| has(run, 3)),
    workload("pod-relabelled", |run| made(run, 2), |run| vec![relabel(run)], relabelled),
    workload("recreate", |run| made(run, 2), recreate, |run| has(run, 2)),
    workload("delete", |run| made(run, 3), |run| vec![set(run).delete()], gone),
];

/// Modifications by a third party.
pub const THIRD_PARTY_CHANGES: &[ThirdPartyChange] = &[
    ("pod-deleted", |run| vec![pod(run).delete()]),
    ("all-pods-deleted", |run| (1..=3).map(|nth| nth_pod(run, nth).delete()).collect()),
    ("pod-held", |run| hold(pod(run))),
    ("owner-reference-removed", |run| strip(pod(run), json!({ "ownerReferences": null }))),
    ("annotations-stomped", |run| strip(pod(run), json!({ "annotations": null }))),
];

const fn workload(
    name: &'static str,
    before: fn(&str) -> Vec<Step>,
    act: fn(&str) -> Vec<Step>,
    goals: fn(&str) -> Vec<Goal>,
) -> Workload {
    Workload { controller: "podset", name, before, act, goals }
}

fn set(run: &str) -> ObjectRef {
    ObjectRef::home(&POD_SET, run)
}

fn pod(run: &str) -> ObjectRef {
    nth_pod(run, 1)
}

fn nth_pod(run: &str, nth: usize) -> ObjectRef {
    ObjectRef::home(&POD, &format!("{run}-pod-{nth}"))
}

fn make(run: &str, replicas: usize) -> Step {
    set(run).with(json!({ "replicas": replicas }))
}

fn scale(run: &str, replicas: usize) -> Step {
    set(run).change(json!({ "replicas": replicas }))
}

fn has(run: &str, replicas: usize) -> Vec<Goal> {
    vec![
        set(run).ready(),
        Goal::Has(set(run), "/status/readyReplicas", json!(replicas)),
        Goal::Count(&POD, replicas),
    ]
}

fn made(run: &str, replicas: usize) -> Vec<Step> {
    [make(run, replicas)].into_iter().chain(has(run, replicas).into_iter().map(Step::Until)).collect()
}

fn change_and_revert(run: &str) -> Vec<Step> {
    let four = has(run, 4).into_iter().map(Step::Until);
    [scale(run, 4)].into_iter().chain(four).chain([scale(run, 2)]).collect()
}

/// A Pod no longer matches the selector and must be replaced.
fn relabel(run: &str) -> Step {
    Step::Change(pod(run), json!({ "metadata": { "labels": { "app": "stranger" } } }))
}

fn relabelled(run: &str) -> Vec<Goal> {
    let released = Goal::Has(pod(run), "/metadata/ownerReferences", json!(null));
    vec![set(run).ready(), Goal::Count(&POD, 3), released]
}

/// Recreates the PodSet only after its Pods are gone. Otherwise, the garbage collector may see the
/// new PodSet after an outage and never learn that the old one is gone.
fn recreate(run: &str) -> Vec<Step> {
    let gone = gone(run).into_iter().map(Step::Until);
    [set(run).delete()].into_iter().chain(gone).chain([make(run, 2)]).collect()
}

fn gone(run: &str) -> Vec<Goal> {
    vec![set(run).gone(), Goal::Count(&POD, 0)]
}
