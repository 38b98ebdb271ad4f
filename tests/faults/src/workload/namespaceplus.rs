//! Workloads of NamespacePluses.

use serde_json::{Value, json};

use super::{Disturbance, Goal, Place, Step, Workload, hold, namespace};
use crate::kinds::{
    BUDGET, Kind, LIMIT_RANGE, NAMESPACE, NAMESPACE_PLUS, NETWORK_POLICY, RESOURCE_QUOTA, ROLE_BINDING,
};

/// All of them.
pub const ALL: &[Workload] = &[
    workload("create", |_| vec![], |run| vec![make(run)], has),
    workload("change", made, |run| vec![plus(run).change(other())], changed),
    workload("change-and-revert", made, change_and_revert, has),
    workload("quota-deleted", made, |run| vec![quota(run).delete()], has),
    workload("labels-stomped", made, |run| vec![stomp(run)], unstomped),
    workload("foreign", |run| vec![namespace(run)], |run| vec![make(run)], foreign),
    workload("adopt", stood_off, |run| vec![hand_over(run)], has),
    workload("release", made, |run| vec![plus(run).delete()], released),
    workload("recreate", deletable, recreate, has),
    workload("delete", deletable, |run| vec![plus(run).delete()], gone),
];

/// What a third hand does.
pub const DISTURBANCES: &[Disturbance] = &[
    ("quota-deleted", |run| vec![quota(run).delete()]),
    ("quota-held", |run| hold(quota(run))),
    ("limits-deleted", |run| vec![Place::within(&LIMIT_RANGE, run, "default-limits").delete()]),
    ("policy-deleted", |run| vec![Place::within(&NETWORK_POLICY, run, "deny").delete()]),
    ("rights-deleted", |run| vec![Place::within(&ROLE_BINDING, run, "view").delete()]),
    ("budget-deleted", |run| vec![Place::within(&BUDGET, run, "web").delete()]),
    ("quota-raised", |run| vec![quota(run).change(json!({ "hard": { "pods": "99" } }))]),
    ("labels-stomped", |run| vec![stomp(run)]),
    ("namespace-deleted", |run| vec![Place::home(&NAMESPACE, run).delete()]),
];

const fn workload(
    name: &'static str,
    before: fn(&str) -> Vec<Step>,
    act: fn(&str) -> Vec<Step>,
    goals: fn(&str) -> Vec<Goal>,
) -> Workload {
    Workload { controller: "namespaceplus", name, before, act, goals }
}

fn plus(run: &str) -> Place {
    Place::home(&NAMESPACE_PLUS, run)
}

fn quota(run: &str) -> Place {
    Place::within(&RESOURCE_QUOTA, run, "default-quota")
}

fn spec() -> Value {
    json!({
        "labels": { "team": "blue" },
        "quota": { "pods": "4" },
        "limitRange": { "limits": [{ "type": "Container", "default": { "cpu": "1" } }] },
        "networkPolicies": [{ "name": "deny", "spec": { "podSelector": {} } }],
        "roleBindings": [{
            "name": "view", "clusterRole": "view", "subjects": [{ "kind": "User", "name": "alice" }],
        }],
        "podDisruptionBudgets": [{
            "name": "web",
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
        }],
    })
}

fn other() -> Value {
    json!({ "labels": { "team": "green" }, "quota": { "pods": "5" }, "networkPolicies": [] })
}

fn make(run: &str) -> Step {
    plus(run).with(spec())
}

fn count(kind: &'static Kind, count: usize) -> Goal {
    Goal::Count(kind, count)
}

fn has(run: &str) -> Vec<Goal> {
    let one = [&NAMESPACE, &RESOURCE_QUOTA, &LIMIT_RANGE, &NETWORK_POLICY, &ROLE_BINDING, &BUDGET];
    let mut goals: Vec<_> = one.map(|kind| count(kind, 1)).into();
    goals.push(plus(run).ready());
    goals
}

fn made(run: &str) -> Vec<Step> {
    [make(run)].into_iter().chain(has(run).into_iter().map(Step::Until)).collect()
}

fn deletable(run: &str) -> Vec<Step> {
    let policy = plus(run).change(json!({ "deletionPolicy": "Delete" }));
    made(run).into_iter().chain([policy, Step::Until(plus(run).ready())]).collect()
}

fn changed(run: &str) -> Vec<Goal> {
    let hard = Goal::Has(quota(run), "/spec/hard/pods", json!("5"));
    vec![plus(run).ready(), hard, count(&NETWORK_POLICY, 0)]
}

fn change_and_revert(run: &str) -> Vec<Step> {
    let changed = changed(run).into_iter().map(Step::Until);
    [plus(run).change(other())].into_iter().chain(changed).chain([plus(run).change(spec())]).collect()
}

/// Somebody takes the labels of the namespace for his own.
fn stomp(run: &str) -> Step {
    let place = Place::home(&NAMESPACE, run);
    Step::Change(place, json!({ "metadata": { "labels": { "team": "red" } } }))
}

fn unstomped(run: &str) -> Vec<Goal> {
    let mut goals = has(run);
    goals.push(Goal::Has(Place::home(&NAMESPACE, run), "/metadata/labels/team", json!("blue")));
    goals
}

fn foreign(run: &str) -> Vec<Goal> {
    vec![Goal::Has(plus(run), "/status/observedGeneration", json!(1)), count(&RESOURCE_QUOTA, 0)]
}

fn stood_off(run: &str) -> Vec<Step> {
    [namespace(run), make(run)].into_iter().chain(foreign(run).into_iter().map(Step::Until)).collect()
}

fn hand_over(run: &str) -> Step {
    let adopt = format!("{}/{run}", super::HOME);
    let annotations = json!({ "mygroup.my.domain/adopt-by": adopt });
    Step::Change(Place::home(&NAMESPACE, run), json!({ "metadata": { "annotations": annotations } }))
}

fn released(run: &str) -> Vec<Goal> {
    vec![plus(run).gone(), count(&NAMESPACE, 1), count(&RESOURCE_QUOTA, 1)]
}

fn gone(run: &str) -> Vec<Goal> {
    vec![plus(run).gone(), count(&NAMESPACE, 0)]
}

fn recreate(run: &str) -> Vec<Step> {
    let gone = gone(run).into_iter().map(Step::Until);
    [plus(run).delete()].into_iter().chain(gone).chain([make(run)]).collect()
}
