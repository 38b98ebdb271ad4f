//! Tests of the status.

use std::sync::Arc;

use capsule::owners::OwnerError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator_core::conditions::{find, is_true};
use serde_json::{Value, json};

use super::*;
use crate::plan::plan;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn tenant(spec: Value) -> Tenant {
    let metadata = json!({ "name": "oil", "uid": "1", "generation": 2 });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

fn deleting(spec: Value) -> Tenant {
    let mut tenant = tenant(spec);
    tenant.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    tenant
}

fn namespace(name: &str) -> Arc<Namespace> {
    let metadata = json!({ "name": name, "uid": format!("uid-{name}") });
    Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
}

fn terminating(name: &str, conditions: Value) -> Arc<Namespace> {
    let metadata = json!({ "name": name, "uid": name, "deletionTimestamp": "2026-01-01T00:00:00Z" });
    let namespace = json!({ "metadata": metadata, "status": { "conditions": conditions } });
    Arc::new(serde_json::from_value(namespace).unwrap())
}

fn active(names: &[&str]) -> MemberNamespaces {
    let active = names.iter().map(|name| namespace(name)).collect();
    MemberNamespaces { active, ..MemberNamespaces::default() }
}

fn recorded(tenant: &Tenant, members: &MemberNamespaces) -> Option<TenantStatus> {
    status_of_plan(tenant, &plan(tenant, &[], &[], members, |_, _| None, Timestamp::UNIX_EPOCH), NOW)
}

fn message(conditions: &[Condition], type_: &str) -> String {
    find(conditions, type_).unwrap().message.clone()
}

#[test]
fn owners_are_recorded_once_before_the_plan_is_carried_out() {
    let mut tenant = tenant(json!({ "owners": [{ "kind": "User", "name": "alice" }] }));
    let status = recorded(&tenant, &active(&["a"])).unwrap();
    assert_eq!(status.owners[0].name, "alice");
    assert_eq!(status.observed_generation, None, "the spec is not reconciled yet");
    let ready = find(&status.conditions, READY).unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("Unknown", "Reconciling"));
    tenant.status = Some(status);
    assert_eq!(recorded(&tenant, &active(&["a"])), None);
}

/// The controller may be killed between the patch of the namespace and the update of the status.
#[test]
fn metadata_is_recorded_before_it_is_applied() {
    let mut tenant = tenant(json!({ "nodeSelector": { "pool": "a" } }));
    let status = recorded(&tenant, &active(&["x"])).unwrap();
    let annotations = status.spaces[0].metadata.clone().unwrap().annotations;
    assert_eq!(annotations["scheduler.alpha.kubernetes.io/node-selector"], "pool=a");
    assert_eq!((status.size, status.namespaces.len()), (0, 0), "it counts when its objects are there");

    // The spec changes while the controller does not run.
    tenant.status = Some(status);
    tenant.spec.node_selector.clear();
    let plan = plan(&tenant, &[], &[], &active(&["x"]), |_, _| None, Timestamp::UNIX_EPOCH);
    assert_eq!(status_of_plan(&tenant, &plan, NOW), None);
    assert_eq!(plan.namespaces[0].last_applied.annotations, annotations);
}

#[test]
fn final_status_records_exactly_the_applied_metadata() {
    let mut tenant = tenant(json!({}));
    let metadata = Metadata { labels: [("a".to_owned(), "b".to_owned())].into(), ..Metadata::default() };
    let mut report = Report { members: active(&["x"]), ..Report::default() };
    report.metadata.insert("x".to_owned(), metadata.clone());
    let first = status(&tenant, &report, NOW);
    assert_eq!(first.spaces[0].metadata, Some(metadata));
    assert_eq!(first.observed_generation, Some(2));
    tenant.status = Some(first.clone());
    assert_eq!(status(&tenant, &report, Timestamp::now()), first, "an equal report changes nothing");
    report.metadata.insert("x".to_owned(), Metadata::default());
    assert_eq!(status(&tenant, &report, NOW).spaces[0].metadata, Some(Metadata::default()));
}

#[test]
fn failure_in_one_namespace_is_reported_for_it_and_the_tenant() {
    let mut report = Report { members: active(&["a", "b"]), ..Report::default() };
    report.failures.add_in("b", vec![OwnerError::Name("x".to_owned()).into()]);
    let status = status(&tenant(json!({})), &report, NOW);
    assert!(is_true(&status.spaces[0].conditions, READY));
    assert!(message(&status.spaces[1].conditions, READY).contains("\"x\" gets no rights"));
    let ready = find(&status.conditions, READY).unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Failed"));
    assert!(ready.message.contains("\"x\" gets no rights"));
}

#[test]
fn mismatched_namespaces_are_reported_up_to_a_limit() {
    let mismatched = (0..6).map(|at| (format!("ns-{at}"), MembershipError::NoReference)).collect();
    let members = MemberNamespaces { mismatched, ..MemberNamespaces::default() };
    let status = status(&tenant(json!({})), &Report { members, ..Report::default() }, NOW);
    let message = message(&status.conditions, READY);
    assert!(is_true(&status.conditions, READY));
    assert!(message.starts_with("reconciled; namespace ns-0 does not belong"), "{message}");
    assert!(message.ends_with("and 2 more namespaces that do not belong to the Tenant"), "{message}");
    assert_eq!((status.size, status.spaces.len()), (0, 0));
}

#[test]
fn terminating_namespace_reports_what_blocks_its_deletion() {
    let conditions = json!([
        { "type": "NamespaceContentRemaining", "status": "True", "reason": "r", "message": "1 pod remains" },
        { "type": "NamespaceDeletionContentFailure", "status": "False", "reason": "r", "message": "no" },
    ]);
    let members = MemberNamespaces {
        active: vec![namespace("m")],
        terminating: vec![terminating("a", conditions), terminating("z", json!([]))],
        ..MemberNamespaces::default()
    };
    let status = status(&deleting(json!({})), &Report { members, ..Report::default() }, NOW);
    assert_eq!(status.namespaces, ["a", "m", "z"]);
    assert_eq!(status.state, TenantState::Terminating);
    let reason = |at: usize| find(&status.spaces[at].conditions, TERMINATING).map(|found| &found.reason);
    assert_eq!(reason(0).unwrap(), PENDING_UNMANAGED_CONTENT);
    assert_eq!(reason(1), None);
    assert_eq!(reason(2).unwrap(), reasons::TERMINATING);
    let message = message(&status.conditions, READY);
    assert_eq!(message, "waiting for the deletion of namespaces: m, a, z; namespace a: 1 pod remains");
}

#[test]
fn terminating_namespace_reports_its_finalizers() {
    let mut namespace = terminating("a", json!([])).as_ref().clone();
    namespace.metadata.finalizers =
        Some(vec!["example.com/backup".to_owned(), "example.com/audit".to_owned()]);
    let members = MemberNamespaces { terminating: vec![Arc::new(namespace)], ..MemberNamespaces::default() };
    let status = status(&deleting(json!({})), &Report { members, ..Report::default() }, NOW);
    let expected = "finalizers of the namespace remain: example.com/backup, example.com/audit";
    assert!(message(&status.conditions, READY).ends_with(&format!("namespace a: {expected}")));
    assert_eq!(message(&status.spaces[0].conditions, TERMINATING), expected);
}

#[test]
fn long_message_is_truncated_at_a_character() {
    let report = Report { warnings: vec!["ä".repeat(MAX_MESSAGE_BYTES)], ..Report::default() };
    let status = status(&tenant(json!({})), &report, NOW);
    assert!(message(&status.conditions, READY).len() <= MAX_MESSAGE_BYTES);
}

#[test]
fn reservation_is_removed_when_its_namespace_terminates() {
    let mut tenant = tenant(json!({ "storageClasses": { "allowed": ["fast"] } }));
    let classes = AvailableClasses { storage: vec!["fast".to_owned()], ..AvailableClasses::default() };
    let report = Report { members: active(&["a", "b"]), classes, ..Report::default() };
    let until = |seconds| Time(Timestamp::from_second(seconds).unwrap());
    let mut before = status(&tenant, &report, NOW);
    for (namespace, seconds) in [("a", 60), ("gone", 30)] {
        before.reservations.push(Reservation { namespace: namespace.to_owned(), until: until(seconds) });
    }
    tenant.status = Some(before.clone());
    assert_eq!(status(&tenant, &report, until(45).0), before, "an expired reservation stays");

    let members = MemberNamespaces {
        active: vec![namespace("b")],
        terminating: vec![terminating("a", json!([]))],
        ..MemberNamespaces::default()
    };
    let after = status(&tenant, &Report { members, ..Report::default() }, NOW);
    assert_eq!(after.reservations.len(), 1);
    assert_eq!(after.reservations[0].namespace, "gone");
    let report = Report { members: active(&["b"]), ..Report::default() };
    let after = status(&tenant, &report, until(45).0);
    assert_eq!(after.reservations, before.reservations, "only admission removes expired reservations");
}

#[test]
fn uncached_namespace_stays_in_the_status() {
    let mut tenant = tenant(json!({}));
    let report = Report { members: active(&["a", "b", "c"]), ..Report::default() };
    tenant.status = Some(status(&tenant, &report, NOW));

    let uncached = BTreeSet::from(["b".to_owned()]);
    let after = status(&tenant, &Report { members: active(&["a"]), uncached, ..Report::default() }, NOW);
    assert_eq!(after.namespaces, ["a", "b"], "c no longer exists");
    assert_eq!(after.spaces[1], tenant.status.as_ref().unwrap().spaces[1], "the entry is unchanged");
}
