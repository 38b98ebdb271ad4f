//! Workloads of Tenant.

use serde_json::{Value, json};

use super::{Goal, ObjectRef, Step, ThirdPartyChange, Workload, hold, strip};
use crate::kinds::{
    LIMIT_RANGE, NAMESPACE, PERSISTENT_VOLUME, RESOURCE_QUOTA, ROLE_BINDING, SERVICE, TENANT,
};

/// All workloads.
pub const ALL: &[Workload] = &[
    workload("create", |_| vec![], |run| vec![make(run), join(run, "a")], |run| has(run, 1)),
    workload("join", |run| made(run, 0), |run| vec![join(run, "a"), join(run, "b")], |run| has(run, 2)),
    workload("change", |run| made(run, 1), |run| vec![tenant(run).change(other())], changed),
    workload("change-and-revert", |run| made(run, 1), change_and_revert, |run| has(run, 1)),
    workload("limits-deleted", |run| made(run, 1), |run| vec![limits(run).delete()], |run| has(run, 1)),
    workload("limits-changed", |run| made(run, 1), |run| vec![relax_limit(run)], limit_restored),
    workload("owner", |run| made(run, 1), |run| vec![hand_over(run)], owned),
    workload(
        "cordon",
        |run| made(run, 1),
        |run| vec![tenant(run).change(json!({ "cordoned": true }))],
        cordoned,
    ),
    workload("metadata", with_service, |run| vec![tenant(run).change(service_metadata())], labelled),
    workload("volume", |run| made(run, 1), |run| vec![volume(run)], volume_labelled),
    workload("leave", |run| made(run, 2), |run| vec![namespace(run, "b").delete()], left),
    workload("recreate", |run| made(run, 0), recreate, |run| has(run, 1)),
    workload("delete", |run| made(run, 1), |run| vec![tenant(run).delete()], gone),
];

/// Modifications by a third party.
pub const THIRD_PARTY_CHANGES: &[ThirdPartyChange] = &[
    ("limits-deleted", |run| vec![limits(run).delete()]),
    ("limits-held", |run| hold(limits(run))),
    ("limits-loosened", |run| vec![relax_limit(run)]),
    ("labels-stomped", |run| strip(limits(run), json!({ "labels": null }))),
    ("namespace-annotations-stomped", |run| strip(namespace(run, "a"), json!({ "annotations": null }))),
    ("rights-deleted", |run| vec![rights(run).delete()]),
];

const fn workload(
    name: &'static str,
    before: fn(&str) -> Vec<Step>,
    act: fn(&str) -> Vec<Step>,
    goals: fn(&str) -> Vec<Goal>,
) -> Workload {
    Workload { controller: "tenant", name, before, act, goals }
}

fn tenant(run: &str) -> ObjectRef {
    ObjectRef::home(&TENANT, run)
}

fn namespace(run: &str, end: &str) -> ObjectRef {
    ObjectRef::home(&NAMESPACE, &format!("{run}-{end}"))
}

fn limits(run: &str) -> ObjectRef {
    ObjectRef::within(&LIMIT_RANGE, &format!("{run}-a"), &format!("capsule-{run}-0"))
}

/// One of the RoleBindings of alice.
fn rights(run: &str) -> ObjectRef {
    ObjectRef::within(&ROLE_BINDING, &format!("{run}-a"), "capsule:managed:286b623af2586c63")
}

fn owners(name: &str) -> Value {
    json!([{ "kind": "User", "name": name }])
}

fn limit(cpu: &str) -> Value {
    json!({ "items": [{ "limits": [{ "type": "Container", "default": { "cpu": cpu } }] }] })
}

fn make(run: &str) -> Step {
    tenant(run).with(json!({ "owners": owners("alice"), "limitRanges": limit("1") }))
}

fn other() -> Value {
    json!({ "limitRanges": null, "resourceQuotas": { "items": [{ "hard": { "pods": "10" } }] } })
}

fn join(run: &str, end: &str) -> Step {
    Step::Join { tenant: run.to_owned(), namespace: format!("{run}-{end}") }
}

fn has(run: &str, namespaces: usize) -> Vec<Goal> {
    vec![
        tenant(run).ready(),
        Goal::Has(tenant(run), "/status/size", json!(namespaces)),
        Goal::Count(&NAMESPACE, namespaces),
        Goal::Count(&LIMIT_RANGE, namespaces),
        Goal::Count(&ROLE_BINDING, 2 * namespaces),
    ]
}

fn made(run: &str, namespaces: usize) -> Vec<Step> {
    let joins = ["a", "b"].into_iter().take(namespaces).map(|end| join(run, end));
    [make(run)].into_iter().chain(joins).chain(has(run, namespaces).into_iter().map(Step::Until)).collect()
}

fn changed(run: &str) -> Vec<Goal> {
    vec![tenant(run).ready(), Goal::Count(&LIMIT_RANGE, 0), Goal::Count(&RESOURCE_QUOTA, 1)]
}

fn change_and_revert(run: &str) -> Vec<Step> {
    let changed = changed(run).into_iter().map(Step::Until);
    let back = tenant(run).change(json!({ "limitRanges": limit("1"), "resourceQuotas": null }));
    [tenant(run).change(other())].into_iter().chain(changed).chain([back]).collect()
}

/// A third party relaxes a limit of the Tenant.
fn relax_limit(run: &str) -> Step {
    limits(run).change(json!({ "limits": [{ "type": "Container", "default": { "cpu": "64" } }] }))
}

fn limit_restored(run: &str) -> Vec<Goal> {
    let mut goals = has(run, 1);
    goals.push(Goal::Has(limits(run), "/spec/limits/0/default/cpu", json!("1")));
    goals
}

fn hand_over(run: &str) -> Step {
    tenant(run).change(json!({ "owners": owners("bob") }))
}

fn owned(run: &str) -> Vec<Goal> {
    let mut goals = has(run, 1);
    goals.push(Goal::Has(tenant(run), "/status/owners/0/name", json!("bob")));
    goals
}

fn cordoned(run: &str) -> Vec<Goal> {
    let mut goals = has(run, 1);
    goals.push(Goal::Has(tenant(run), "/status/state", json!("Cordoned")));
    let label = "/metadata/labels/projectcapsule.dev~1cordoned";
    goals.push(Goal::Has(namespace(run, "a"), label, json!("true")));
    goals
}

fn service(run: &str) -> ObjectRef {
    ObjectRef::within(&SERVICE, &format!("{run}-a"), "web")
}

fn with_service(run: &str) -> Vec<Step> {
    let create = service(run).with(json!({ "ports": [{ "port": 80 }] }));
    made(run, 1).into_iter().chain([create]).collect()
}

fn service_metadata() -> Value {
    json!({ "serviceOptions": { "additionalMetadata": { "labels": { "team": "oil" } } } })
}

fn labelled(run: &str) -> Vec<Goal> {
    let mut goals = has(run, 1);
    goals.push(Goal::Has(service(run), "/metadata/labels/team", json!("oil")));
    goals
}

/// A claim of the Tenant binds a volume.
fn volume(run: &str) -> Step {
    ObjectRef::home(&PERSISTENT_VOLUME, run).with(json!({
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
        "hostPath": { "path": "/tmp/none" }, "claimRef": { "namespace": format!("{run}-a"), "name": "data" },
    }))
}

fn volume_labelled(run: &str) -> Vec<Goal> {
    let mut goals = has(run, 1);
    let label = "/metadata/labels/capsule.clastix.io~1tenant";
    goals.push(Goal::Has(ObjectRef::home(&PERSISTENT_VOLUME, run), label, json!(run)));
    goals
}

fn left(run: &str) -> Vec<Goal> {
    let mut goals = has(run, 1);
    goals.push(namespace(run, "b").gone());
    goals
}

fn recreate(run: &str) -> Vec<Step> {
    vec![tenant(run).delete(), Step::Until(tenant(run).gone()), make(run), join(run, "a")]
}

fn gone(run: &str) -> Vec<Goal> {
    vec![tenant(run).gone(), Goal::Count(&NAMESPACE, 0)]
}
