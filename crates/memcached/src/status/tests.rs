use std::sync::Arc;

use operator_core::conditions::find;
use serde_json::{Value, json};

use super::*;
use crate::{
    build::fixture::cache,
    reasons::{AWAITING_CLEANUP, NAME_CONFLICT},
};

fn pod(name: &str, ip: &str, is_ready: bool) -> CachedPod {
    let status = if is_ready { "True" } else { "False" };
    let pod = json!({
        "metadata": {"name": name},
        "status": {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": status}]},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn deployment(status: &Value) -> Deployment {
    serde_json::from_value(json!({"metadata": {"generation": 2}, "status": status})).unwrap()
}

fn settled(updated: i32) -> Deployment {
    deployment(&json!({"observedGeneration": 2, "updatedReplicas": updated}))
}

fn condition(status: &MemcachedStatus, type_: &str) -> (String, String) {
    let condition = find(&status.conditions, type_).unwrap();
    (condition.status.clone(), condition.reason.clone())
}

fn all_conditions(status: &MemcachedStatus) -> [(String, String); 4] {
    [AVAILABLE, PROGRESSING, DEGRADED, READY].map(|type_| condition(status, type_))
}

fn status_of(
    size: i32,
    pods: &[CachedPod],
    deployment: Option<&Deployment>,
    failures: &[Failure],
) -> MemcachedStatus {
    let pods_asked = Size { pods: size, autoscaler: None };
    let observed = Observation { size: &pods_asked, pods, deployment, has_service: true, failures };
    status(&cache(&json!({"size": size})), &observed, Timestamp::UNIX_EPOCH)
}

fn expected(conditions: [(&str, &str); 4]) -> [(String, String); 4] {
    conditions.map(|(status, reason)| (status.to_owned(), reason.to_owned()))
}

#[test]
fn reports_all_conditions_on_the_first_reconcile() {
    let status = status_of(3, &[], None, &[]);
    let want = [
        ("False", PODS_NOT_READY),
        ("True", ROLLING_OUT),
        ("False", AS_SPECIFIED),
        ("False", PODS_NOT_READY),
    ];
    assert_eq!(all_conditions(&status), expected(want));
    assert_eq!(status.selector, "app=memcached,memcached_cr=web");
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn is_ready_when_all_updated_pods_are_ready() {
    let pods = [pod("web-1-a", "10.0.0.2", true), pod("web-1-b", "10.0.0.1", true)];
    let status = status_of(2, &pods, Some(&settled(2)), &[]);
    let want =
        [("True", AS_SPECIFIED), ("False", AS_SPECIFIED), ("False", AS_SPECIFIED), ("True", AS_SPECIFIED)];
    assert_eq!(all_conditions(&status), expected(want));
    assert_eq!(status.nodes, ["web-1-a", "web-1-b"]);
    assert_eq!(status.endpoints, ["10-0-0-1.web.shop.svc:11211", "10-0-0-2.web.shop.svc:11211"]);
    assert_eq!((status.replicas, status.ready_replicas), (2, 2));
}

#[test]
fn is_available_with_size_zero() {
    let status = status_of(0, &[], Some(&settled(0)), &[]);
    assert_eq!(condition(&status, READY), ("True".to_owned(), AS_SPECIFIED.to_owned()));
}

#[test]
fn is_available_but_not_ready_during_rollout() {
    let pods = [pod("web-1-a", "10.0.0.1", true), pod("web-2-b", "10.0.0.2", false)];
    let status = status_of(1, &pods, Some(&settled(1)), &[]);
    let want =
        [("True", AS_SPECIFIED), ("True", ROLLING_OUT), ("False", AS_SPECIFIED), ("False", ROLLING_OUT)];
    assert_eq!(all_conditions(&status), expected(want));
    assert_eq!(status.endpoints.len(), 1, "a pod that is not ready is no endpoint");
}

#[test]
fn is_progressing_until_deployment_generation_is_observed() {
    let unseen = deployment(&json!({"observedGeneration": 1, "updatedReplicas": 1}));
    let status = status_of(1, &[pod("web-1-a", "10.0.0.1", true)], Some(&unseen), &[]);
    assert_eq!(condition(&status, PROGRESSING), ("True".to_owned(), ROLLING_OUT.to_owned()));
}

#[test]
fn failure_degrades_and_blocks_progress() {
    let failure = Failure {
        reason: NAME_CONFLICT,
        message: "Deployment shop/web exists".into(),
        needs_user_action: true,
    };
    let status = status_of(1, &[], None, &[failure]);
    let want =
        [("False", PODS_NOT_READY), ("False", BLOCKED), ("True", NAME_CONFLICT), ("False", NAME_CONFLICT)];
    assert_eq!(all_conditions(&status), expected(want));
}

#[test]
fn is_progressing_after_failed_write_even_if_all_pods_are_ready() {
    let pods = [pod("web-1-a", "10.0.0.1", true)];
    let passing = Failure { reason: AWAITING_CLEANUP, message: "waits".into(), needs_user_action: false };
    let status = status_of(1, &pods, Some(&settled(1)), &[passing]);
    let want = [
        ("True", AS_SPECIFIED),
        ("True", AWAITING_CLEANUP),
        ("False", AS_SPECIFIED),
        ("False", AWAITING_CLEANUP),
    ];
    assert_eq!(all_conditions(&status), expected(want));
}

#[test]
fn reports_failure_conditions_of_deployment() {
    let failing = deployment(&json!({"observedGeneration": 2, "conditions": [
        {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: tight"},
        {"type": "Progressing", "status": "False", "reason": PROGRESS_DEADLINE_EXCEEDED, "message": "has timed out"},
    ]}));
    let status = status_of(1, &[], Some(&failing), &[]);
    let degraded = find(&status.conditions, DEGRADED).unwrap();
    assert_eq!((degraded.status.as_str(), degraded.reason.as_str()), ("True", REPLICA_FAILURE));
    assert_eq!(degraded.message, "exceeded quota: tight; has timed out");
}

#[test]
fn has_no_endpoints_without_owned_service() {
    let pods = [pod("web-1-a", "10.0.0.1", true)];
    let size = Size { pods: 1, autoscaler: None };
    let observed =
        Observation { size: &size, pods: &pods, deployment: None, has_service: false, failures: &[] };
    let status = status(&cache(&json!({"size": 1})), &observed, Timestamp::UNIX_EPOCH);
    assert_eq!(status.endpoints, Vec::<String>::new());
}

#[test]
fn reports_size_set_by_autoscaler() {
    let pods = [pod("web-1-a", "10.0.0.1", true), pod("web-1-b", "10.0.0.2", true)];
    let size = Size { pods: 2, autoscaler: Some("busy".to_owned()) };
    let deployment = settled(2);
    let observed = Observation {
        size: &size,
        pods: &pods,
        deployment: Some(&deployment),
        has_service: true,
        failures: &[],
    };
    let status = status(&cache(&json!({"size": 1})), &observed, Timestamp::UNIX_EPOCH);
    let ready = find(&status.conditions, READY).unwrap();
    assert_eq!(ready.status, "True");
    assert!(ready.message.contains("HorizontalPodAutoscaler busy"), "{}", ready.message);
}
