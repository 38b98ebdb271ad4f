//! Workloads of NamespacePlus.

use serde_json::{Value, json};

use super::{Goal, ObjectRef, Step, ThirdPartyChange, Workload, hold, namespace};
use crate::kinds::{
    BUDGET, Kind, LIMIT_RANGE, NAMESPACE, NAMESPACE_PLUS, NETWORK_POLICY, RESOURCE_QUOTA, ROLE_BINDING,
};

/// All workloads.
pub const ALL: &[Workload] = &[
    workload("create", |_| vec![], |run| vec![make(run)], has),
    workload("change", made, |run| vec![plus(run).change(other())], changed),
    workload("change-and-revert", made, change_and_revert, has),
    workload("quota-deleted", made, |run| vec![quota(run).delete()], has),
    workload("labels-stomped", made, |run| vec![overwrite_labels(run)], labels_restored),
    workload("foreign", |run| vec![namespace(run)], |run| vec![make(run)], foreign),
    workload("adopt", not_owned, |run| vec![hand_over(run)], has),
    workload("release", made, |run| vec![plus(run).delete()], released),
    workload("recreate", deletable, recreate, has),
    workload("delete", deletable, |run| vec![plus(run).delete()], gone),
];

/// Modifications by a third party.
pub const THIRD_PARTY_CHANGES: &[ThirdPartyChange] = &[
    ("quota-deleted", |run| vec![quota(run).delete()]),
    ("quota-held", |run| hold(quota(run))),
    ("limits-deleted", |run| vec![ObjectRef::within(&LIMIT_RANGE, run, "default-limits").delete()]),
    ("policy-deleted", |run| vec![ObjectRef::within(&NETWORK_POLICY, run, "deny").delete()]),
    ("rights-deleted", |run| vec![ObjectRef::within(&ROLE_BINDING, run, "view").delete()]),
    ("budget-deleted", |run| vec![ObjectRef::within(&BUDGET, run, "web").delete()]),
    ("quota-raised", |run| vec![quota(run).change(json!({ "hard": { "pods": "99" } }))]),
    ("labels-stomped", |run| vec![overwrite_labels(run)]),
    ("namespace-deleted", |run| vec![ObjectRef::home(&NAMESPACE, run).delete()]),
];

const fn workload(
    name: &'static str,
    before: fn(&str) -> Vec<Step>,
    act: fn(&str) -> Vec<Step>,
    goals: fn(&str) -> Vec<Goal>,
) -> Workload {
    Workload { controller: "namespaceplus", name, before, act, goals }
}

fn plus(run: &str) -> ObjectRef {
    ObjectRef::home(&NAMESPACE_PLUS, run)
}

fn quota(run: &str) -> ObjectRef {
    ObjectRef::within(&RESOURCE_QUOTA, run, "default-quota")
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

/// A third party overwrites the labels of the namespace.
fn overwrite_labels(run: &str) -> Step {
    let place = ObjectRef::home(&NAMESPACE, run);
    Step::Change(place, json!({ "metadata": { "labels": { "team": "red" } } }))
}

fn labels_restored(run: &str) -> Vec<Goal> {
    let mut goals = has(run);
    goals.push(Goal::Has(ObjectRef::home(&NAMESPACE, run), "/metadata/labels/team", json!("blue")));
    goals
}

fn foreign(run: &str) -> Vec<Goal> {
    vec![Goal::Has(plus(run), "/status/observedGeneration", json!(1)), count(&RESOURCE_QUOTA, 0)]
}

fn not_owned(run: &str) -> Vec<Step> {
    [namespace(run), make(run)].into_iter().chain(foreign(run).into_iter().map(Step::Until)).collect()
}

fn hand_over(run: &str) -> Step {
    let adopt = format!("{}/{run}", super::HOME);
    let annotations = json!({ "mygroup.my.domain/adopt-by": adopt });
    Step::Change(ObjectRef::home(&NAMESPACE, run), json!({ "metadata": { "annotations": annotations } }))
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
