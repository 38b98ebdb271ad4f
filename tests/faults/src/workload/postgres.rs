//! Workloads of PostgresCluster. Its Pods are [simulated](crate::members).

use postgres::{FENCE, RESTART, SWITCHOVER};
use serde_json::{Value, json};

use super::{Goal, HELD, ObjectRef, Step, ThirdPartyChange, Workload, finalizers, hold, strip};
use crate::kinds::{
    BUDGET, Kind, LEASE, NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, POD, POSTGRES_CLUSTER, ROLE, SECRET,
    SERVICE, SERVICE_ACCOUNT,
};

/// Returns a node selector that no node meets: the Pods are simulated.
fn node_selector() -> Value {
    json!({ "faults.test/simulated": "true" })
}

/// All workloads.
pub const ALL: &[Workload] = &[
    workload("create", |_| vec![], |run| vec![make(run, 3)], |run| has(run, 3)),
    workload("create-single", |_| vec![], |run| vec![make(run, 1)], |run| has(run, 1)),
    workload("scale-up", |run| made(run, 1), |run| vec![scale(run, 2)], |run| has(run, 2)),
    workload("scale-down", |run| made(run, 3), |run| vec![scale(run, 2)], scaled_down),
    workload("failover", |run| made(run, 3), fail_over, moved),
    workload("switchover", |run| made(run, 3), |run| vec![annotate(run, SWITCHOVER, json!("any"))], moved),
    workload("parameter", |run| made(run, 2), |run| vec![tune(run, "work_mem", "8MB")], |run| has(run, 2)),
    workload("declare", |run| made(run, 1), |run| vec![declare(run)], declared),
    workload("restart", |run| made(run, 2), |run| vec![annotate(run, RESTART, json!("1"))], restarted),
    workload("rollout", |run| made(run, 1), |run| vec![change_image(run)], rolled_out),
    workload(
        "fence",
        |run| made(run, 2),
        |run| vec![annotate(run, FENCE, json!(format!("{run}-1")))],
        fenced,
    ),
    workload("hibernate", |run| made(run, 2), |run| vec![hibernate(run, true)], hibernated),
    workload("wake", made_to_wake, |run| vec![hibernate(run, false)], |run| has(run, 2)),
    workload("pause", |run| made(run, 2), pause, paused),
    workload("delete", |run| made(run, 2), |run| vec![cluster(run).delete()], |run| gone(run, 2)),
    workload("delete-volumes", made_to_vanish, |run| vec![cluster(run).delete()], |run| gone(run, 0)),
    workload("adopt", |run| made(run, 2), adopt, adopted),
];

/// Modifications by a third party.
pub const THIRD_PARTY_CHANGES: &[ThirdPartyChange] = &[
    ("standby-deleted", |run| vec![member(&POD, run, 3).delete()]),
    ("standby-held", |run| hold(member(&POD, run, 2))),
    ("role-stomped", |run| vec![stomp_role(run)]),
    ("service-deleted", |run| vec![at(&SERVICE, run, "-rw").delete()]),
    ("service-held", |run| hold(at(&SERVICE, run, "-r"))),
    ("budget-deleted", |run| vec![at(&BUDGET, run, "").delete()]),
    ("policy-deleted", |run| vec![at(&NETWORK_POLICY, run, "").delete()]),
    ("account-deleted", |run| vec![at(&SERVICE_ACCOUNT, run, "").delete()]),
    ("permissions-deleted", |run| vec![at(&ROLE, run, "").delete()]),
    ("lease-deleted", |run| vec![at(&LEASE, run, "").delete()]),
    ("labels-stomped", |run| strip(at(&SERVICE, run, "-ro"), json!({ "labels": null }))),
    ("records-stomped", |run| strip(member(&PERSISTENT_VOLUME_CLAIM, run, 2), stomped_record())),
];

const fn workload(
    name: &'static str,
    before: fn(&str) -> Vec<Step>,
    act: fn(&str) -> Vec<Step>,
    goals: fn(&str) -> Vec<Goal>,
) -> Workload {
    Workload { controller: "postgres", name, before, act, goals }
}

fn cluster(run: &str) -> ObjectRef {
    ObjectRef::home(&POSTGRES_CLUSTER, run)
}

/// References a child of the cluster.
fn at(kind: &'static Kind, run: &str, suffix: &str) -> ObjectRef {
    ObjectRef::home(kind, &format!("{run}{suffix}"))
}

/// References the Pod or the volume of a member.
fn member(kind: &'static Kind, run: &str, serial: usize) -> ObjectRef {
    at(kind, run, &format!("-{serial}"))
}

fn make(run: &str, size: usize) -> Step {
    cluster(run).with(json!({ "size": size, "nodeSelector": node_selector() }))
}

fn scale(run: &str, size: usize) -> Step {
    cluster(run).change(json!({ "size": size }))
}

fn tune(run: &str, parameter: &str, value: &str) -> Step {
    cluster(run).change(json!({ "parameters": { parameter: value } }))
}

/// Adds a role with a password, and its database.
fn declare(run: &str) -> Step {
    cluster(run).change(json!({
        "roles": [{ "name": "reporting", "login": true }],
        "databases": [{ "name": "reports", "owner": "reporting" }],
    }))
}

fn annotate(run: &str, annotation: &str, value: Value) -> Step {
    Step::Change(cluster(run), json!({ "metadata": { "annotations": { annotation: value } } }))
}

fn change_image(run: &str) -> Step {
    cluster(run).change(json!({ "image": "example.com/postgres:other" }))
}

/// The members and all their children.
fn has(run: &str, size: usize) -> Vec<Goal> {
    led_by(run, size, 1)
}

/// The Secrets of the certificates, of the application, and of the role, and the one of all roles.
fn declared(run: &str) -> Vec<Goal> {
    let secrets = [Goal::Count(&SECRET, 6)];
    has(run, 1).into_iter().chain(secrets).collect()
}

/// The members, of which this one is the primary.
fn led_by(run: &str, size: usize, primary: usize) -> Vec<Goal> {
    let name = format!("{run}-{primary}");
    vec![
        cluster(run).ready(),
        Goal::Has(cluster(run), "/status/readyMembers", json!(size)),
        Goal::Has(cluster(run), "/status/primary/current", json!(name)),
        Goal::Has(cluster(run), "/status/phase", json!("Running")),
        Goal::Has(cluster(run), "/status/sync/number", json!(usize::from(size > 2))),
        Goal::Has(cluster(run), "/status/sync/members", standbys(run, size, primary)),
        Goal::Has(cluster(run), "/status/sync/pendingNumber", json!(null)),
        Goal::Has(cluster(run), "/metadata/annotations", json!(null)),
        // The Pod can be ready before the report of the primary about its data has come.
        Goal::Has(
            member(&PERSISTENT_VOLUME_CLAIM, run, primary),
            "/metadata/annotations/lukeb0nd.com~1major-version",
            json!("18"),
        ),
        Goal::Count(&POD, size),
        Goal::Count(&PERSISTENT_VOLUME_CLAIM, size),
        Goal::Count(&SERVICE, 4),
        Goal::Count(&BUDGET, usize::from(size > 1)),
        Goal::Count(&NETWORK_POLICY, 1),
    ]
}

/// The standbys of synchronous replication, which three members have.
fn standbys(run: &str, size: usize, primary: usize) -> Value {
    let standbys = (1..=size).filter(|serial| *serial != primary && size > 2);
    standbys.map(|serial| format!("{run}-{serial}")).collect()
}

fn until(goals: Vec<Goal>) -> impl Iterator<Item = Step> {
    goals.into_iter().map(Step::Until)
}

fn made(run: &str, size: usize) -> Vec<Step> {
    [make(run, size)].into_iter().chain(until(has(run, size))).collect()
}

/// Creates a cluster whose volumes are deleted with it.
fn made_to_vanish(run: &str) -> Vec<Step> {
    let spec = json!({
        "size": 2, "nodeSelector": node_selector(), "retention": { "whenDeleted": "Delete" },
    });
    [cluster(run).with(spec)].into_iter().chain(until(has(run, 2))).collect()
}

/// The volume of the member that left stays.
fn scaled_down(run: &str) -> Vec<Goal> {
    let mut goals = has(run, 2);
    goals.retain(|goal| !matches!(goal, Goal::Count(kind, _) if **kind == PERSISTENT_VOLUME_CLAIM));
    goals.push(Goal::Count(&PERSISTENT_VOLUME_CLAIM, 3));
    goals
}

/// Deletes the primary, whose Pod stays until there is another primary: both standbys are candidates, and
/// the first of them is chosen.
fn fail_over(run: &str) -> Vec<Step> {
    let primary = member(&POD, run, 1);
    vec![
        finalizers(&primary, json!([HELD])),
        primary.delete(),
        Step::Until(Goal::Has(cluster(run), "/status/primary/current", json!(format!("{run}-2")))),
        finalizers(&primary, json!(null)),
    ]
}

/// The second member is the primary.
fn moved(run: &str) -> Vec<Goal> {
    led_by(run, 3, 2)
}

fn restarted(run: &str) -> Vec<Goal> {
    let mut goals = led_by(run, 2, 2);
    goals.retain(|goal| !matches!(goal, Goal::Has(_, "/metadata/annotations", _)));
    goals.push(Goal::Has(cluster(run), "/metadata/annotations", json!({ RESTART: "1" })));
    goals
}

fn rolled_out(run: &str) -> Vec<Goal> {
    let image = json!("example.com/postgres:other");
    let mut goals = has(run, 1);
    goals.push(Goal::Has(member(&POD, run, 1), "/spec/containers/0/image", image));
    goals
}

fn fenced(run: &str) -> Vec<Goal> {
    vec![
        Goal::Has(cluster(run), "/status/primary/fenced", json!(true)),
        Goal::Has(cluster(run), "/status/readyMembers", json!(0)),
        Goal::Has(cluster(run), "/status/reason", json!("Fenced")),
        Goal::Count(&POD, 2),
    ]
}

fn hibernate(run: &str, hibernated: bool) -> Step {
    cluster(run).change(json!({ "hibernated": hibernated }))
}

fn hibernated(run: &str) -> Vec<Goal> {
    vec![
        Goal::Has(cluster(run), "/status/phase", json!("Hibernated")),
        Goal::Has(cluster(run), "/status/reason", json!("Hibernated")),
        Goal::Has(cluster(run), "/status/primary/current", json!(format!("{run}-1"))),
        Goal::Count(&POD, 0),
        Goal::Count(&PERSISTENT_VOLUME_CLAIM, 2),
    ]
}

fn made_to_wake(run: &str) -> Vec<Step> {
    made(run, 2).into_iter().chain([hibernate(run, true)]).chain(until(hibernated(run))).collect()
}

/// A paused cluster replaces no Pod.
fn pause(run: &str) -> Vec<Step> {
    vec![cluster(run).change(json!({ "paused": true })), member(&POD, run, 2).delete()]
}

fn paused(run: &str) -> Vec<Goal> {
    vec![
        Goal::Has(cluster(run), "/status/controlPaused", json!(true)),
        Goal::Has(cluster(run), "/status/readyMembers", json!(1)),
        Goal::Count(&POD, 1),
    ]
}

/// The cluster and its children do not exist, except its volumes.
fn gone(run: &str, volumes: usize) -> Vec<Goal> {
    let kinds = [&POD, &SERVICE, &BUDGET, &NETWORK_POLICY, &SERVICE_ACCOUNT, &ROLE, &LEASE];
    let none = kinds.map(|kind| Goal::Count(kind, 0));
    [cluster(run).gone(), Goal::Count(&PERSISTENT_VOLUME_CLAIM, volumes)].into_iter().chain(none).collect()
}

/// Deletes the cluster, and creates one of its name that adopts the volumes.
fn adopt(run: &str) -> Vec<Step> {
    let spec = json!({
        "size": 2, "nodeSelector": node_selector(), "bootstrap": { "volumes": "Adopt" },
    });
    let delete = [cluster(run).delete()].into_iter().chain(until(gone(run, 2)));
    delete.chain([cluster(run).with(spec)]).collect()
}

fn adopted(run: &str) -> Vec<Goal> {
    let mut goals = has(run, 2);
    goals.push(Goal::Has(cluster(run), "/status/adoption/done", json!(true)));
    goals
}

/// A third party gives a standby the label of the primary.
fn stomp_role(run: &str) -> Step {
    let labels = json!({ postgres::ROLE_LABEL: "primary" });
    Step::Change(member(&POD, run, 2), json!({ "metadata": { "labels": labels } }))
}

/// Removes from a volume which members the cluster has.
fn stomped_record() -> Value {
    json!({ "annotations": { "lukeb0nd.com/members": null } })
}
