//! Tests of what is said.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator_core::conditions::{find, is_true};
use serde_json::{Value, json};

use super::*;
use crate::{owners::OwnerError, plan::plan, quota::Resources};

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

fn leaving(name: &str, conditions: Value) -> Arc<Namespace> {
    let metadata = json!({ "name": name, "uid": name, "deletionTimestamp": "2026-01-01T00:00:00Z" });
    let namespace = json!({ "metadata": metadata, "status": { "conditions": conditions } });
    Arc::new(serde_json::from_value(namespace).unwrap())
}

fn live(names: &[&str]) -> Members {
    Members { live: names.iter().map(|name| namespace(name)).collect(), ..Members::default() }
}

fn announced(tenant: &Tenant, members: &Members) -> Option<TenantStatus> {
    announcement(tenant, &plan(tenant, &[], members, |_, _| Resources::new()), NOW)
}

fn message(conditions: &[Condition], type_: &str) -> String {
    find(conditions, type_).unwrap().message.clone()
}

#[test]
fn owners_are_told_before_anything_is_done_and_once() {
    let mut tenant = tenant(json!({ "owners": [{ "kind": "User", "name": "alice" }] }));
    let status = announced(&tenant, &live(&["a"])).unwrap();
    assert_eq!(status.owners[0].name, "alice");
    assert_eq!(status.observed_generation, None, "nothing is done yet");
    let ready = find(&status.conditions, READY).unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("Unknown", "Reconciling"));
    tenant.status = Some(status);
    assert_eq!(announced(&tenant, &live(&["a"])), None);
}

/// A controller that is killed after the patch and before the last word still knows what it has put there.
#[test]
fn what_is_about_to_be_put_on_a_namespace_is_noted_first() {
    let mut tenant = tenant(json!({ "nodeSelector": { "pool": "a" } }));
    let status = announced(&tenant, &live(&["x"])).unwrap();
    let noted = status.spaces[0].metadata.clone().unwrap().annotations;
    assert_eq!(noted["scheduler.alpha.kubernetes.io/node-selector"], "pool=a");
    assert_eq!((status.size, status.namespaces.as_slice()), (1, ["x".to_owned()].as_slice()));

    // The spec changes while the controller is away.
    tenant.status = Some(status);
    tenant.spec.node_selector.clear();
    let plan = plan(&tenant, &[], &live(&["x"]), |_, _| Resources::new());
    assert_eq!(announcement(&tenant, &plan, NOW), None);
    assert_eq!(plan.namespaces[0].remembered.annotations, noted);
}

#[test]
fn the_last_word_remembers_what_is_there_and_no_more() {
    let mut tenant = tenant(json!({}));
    let metadata = Metadata { labels: [("a".to_owned(), "b".to_owned())].into(), ..Metadata::default() };
    let mut report = Report { members: live(&["x"]), ..Report::default() };
    report.metadata.insert("x".to_owned(), metadata.clone());
    let first = status(&tenant, &report, NOW);
    assert_eq!(first.spaces[0].metadata, Some(metadata));
    assert_eq!(first.observed_generation, Some(2));
    tenant.status = Some(first.clone());
    assert_eq!(status(&tenant, &report, Timestamp::now()), first, "the same again is no change");
    report.metadata.insert("x".to_owned(), Metadata::default());
    assert_eq!(status(&tenant, &report, NOW).spaces[0].metadata, None);
}

#[test]
fn a_trouble_of_one_namespace_is_told_there_and_of_the_tenant() {
    let mut report = Report { members: live(&["a", "b"]), ..Report::default() };
    report.failures.add_in("b", vec![OwnerError::Name("x".to_owned()).into()]);
    let status = status(&tenant(json!({})), &report, NOW);
    assert!(is_true(&status.spaces[0].conditions, READY));
    assert!(message(&status.spaces[1].conditions, READY).contains("\"x\" gets no rights"));
    let ready = find(&status.conditions, READY).unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Failed"));
    assert!(ready.message.contains("\"x\" gets no rights"));
}

#[test]
fn namespaces_that_do_not_belong_are_told_but_not_all_of_them() {
    let strays = (0..6).map(|at| (format!("ns-{at}"), Mismatch::NoReference)).collect();
    let members = Members { strays, ..Members::default() };
    let status = status(&tenant(json!({})), &Report { members, ..Report::default() }, NOW);
    let message = message(&status.conditions, READY);
    assert!(is_true(&status.conditions, READY));
    assert!(message.starts_with("reconciled; namespace ns-0 does not belong"), "{message}");
    assert!(message.ends_with("and 2 more namespaces that do not belong"), "{message}");
    assert_eq!((status.size, status.spaces.len()), (0, 0));
}

#[test]
fn a_leaving_namespace_says_what_holds_it_up() {
    let held = json!([
        { "type": "NamespaceContentRemaining", "status": "True", "reason": "r", "message": "1 pod remains" },
        { "type": "NamespaceDeletionContentFailure", "status": "False", "reason": "r", "message": "no" },
    ]);
    let members = Members {
        live: vec![namespace("m")],
        leaving: vec![leaving("a", held), leaving("z", json!([]))],
        ..Members::default()
    };
    let status = status(&deleting(json!({})), &Report { members, ..Report::default() }, NOW);
    assert_eq!(status.namespaces, ["a", "m", "z"]);
    assert_eq!(status.state, TenantState::Terminating);
    let reason = |at: usize| find(&status.spaces[at].conditions, TERMINATING).map(|found| &found.reason);
    assert_eq!(reason(0).unwrap(), PENDING_UNMANAGED_CONTENT);
    assert_eq!(reason(1), None);
    assert_eq!(reason(2).unwrap(), TERMINATING);
    let message = message(&status.conditions, READY);
    assert_eq!(message, "waits until these namespaces are gone: m, a, z; namespace a: 1 pod remains");
}

#[test]
fn a_namespace_that_others_hold_says_who_they_are() {
    let mut held = leaving("a", json!([])).as_ref().clone();
    held.metadata.finalizers = Some(vec!["example.com/backup".to_owned(), "example.com/audit".to_owned()]);
    let members = Members { leaving: vec![Arc::new(held)], ..Members::default() };
    let status = status(&deleting(json!({})), &Report { members, ..Report::default() }, NOW);
    let words = "waits for its own finalizers: example.com/backup, example.com/audit";
    assert!(message(&status.conditions, READY).ends_with(&format!("namespace a: {words}")));
    assert_eq!(message(&status.spaces[0].conditions, TERMINATING), words);
}

#[test]
fn a_long_message_is_cut() {
    let report = Report { notes: vec!["ä".repeat(LONGEST_MESSAGE)], ..Report::default() };
    let status = status(&tenant(json!({})), &report, NOW);
    assert!(message(&status.conditions, READY).len() <= LONGEST_MESSAGE);
}

#[test]
fn a_place_is_kept_until_its_namespace_leaves_whatever_the_clock_says() {
    let mut tenant = tenant(json!({ "storageClasses": { "allowed": ["fast"] } }));
    let classes = AvailableClasses { storage: vec!["fast".to_owned()], ..AvailableClasses::default() };
    let report = Report { members: live(&["a", "b"]), classes, ..Report::default() };
    let until = |seconds| Time(Timestamp::from_second(seconds).unwrap());
    let mut told = status(&tenant, &report, NOW);
    for (namespace, seconds) in [("a", 60), ("gone", 30)] {
        told.reservations.push(Reservation { namespace: namespace.to_owned(), until: until(seconds) });
    }
    tenant.status = Some(told.clone());
    assert_eq!(status(&tenant, &report, until(45).0), told, "nothing has changed");

    let members =
        Members { live: vec![namespace("b")], leaving: vec![leaving("a", json!([]))], ..Members::default() };
    let after = status(&tenant, &Report { members, ..Report::default() }, NOW);
    assert_eq!(after.reservations.len(), 1);
    assert_eq!(after.reservations[0].namespace, "gone");
    let only = Report { members: live(&["b"]), ..Report::default() };
    assert_eq!(status(&tenant, &only, until(45).0).reservations, told.reservations, "reviews drop them");
}

#[test]
fn a_namespace_that_only_the_api_server_has_stays_listed() {
    let mut tenant = tenant(json!({}));
    let report = Report { members: live(&["a", "b", "c"]), ..Report::default() };
    tenant.status = Some(status(&tenant, &report, NOW));

    let uncached = BTreeSet::from(["b".to_owned()]);
    let behind = status(&tenant, &Report { members: live(&["a"]), uncached, ..Report::default() }, NOW);
    assert_eq!(behind.namespaces, ["a", "b"], "c is gone");
    assert_eq!(behind.spaces[1], tenant.status.as_ref().unwrap().spaces[1], "as it was last seen");
}
