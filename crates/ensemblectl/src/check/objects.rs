//! Check of the objects: those that are stuck in deletion, and those that are not Ready.

use std::time::Duration;

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt, api::DynamicObject};

use super::Finding;
use crate::{
    age::human_duration,
    cluster::Cluster,
    flags::Limits,
    installation::Installation,
    kinds::Kind,
    object::{deletion_time, readiness},
};

/// Maximum number of objects listed individually.
const MAX_LISTED: usize = 20;

/// Checks the objects of all kinds.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation, limits: Limits) -> Vec<Finding> {
    let mut objects = Vec::new();
    for kind in installation.kinds() {
        let listed = kind.list(&cluster.client, None).await;
        match listed.with_context(|| format!("cannot list the {} objects", kind.name())) {
            // A missing CustomResourceDefinition is reported by its own check.
            Ok(listed) => objects.extend(listed.into_iter().flatten().map(|object| (kind.clone(), object))),
            Err(error) => return vec![Finding::unknown("objects", &error)],
        }
    }
    evaluate(&objects, limits, cluster.now())
}

fn evaluate(objects: &[(Kind, DynamicObject)], limits: Limits, now: Timestamp) -> Vec<Finding> {
    let stuck: Vec<_> =
        objects.iter().filter_map(|(kind, object)| stuck(kind, object, limits.stuck_after, now)).collect();
    let unready: Vec<_> = objects
        .iter()
        .filter_map(|(kind, object)| unready(kind, object, limits.unready_after, now))
        .collect();
    if stuck.is_empty() && unready.is_empty() {
        return vec![Finding::ok(
            "objects",
            format!("{} objects, none stuck in deletion, none not Ready for long", objects.len()),
        )];
    }
    truncate(stuck).into_iter().chain(truncate(unready)).collect()
}

/// Replaces the findings beyond the maximum by one with their number.
fn truncate(mut findings: Vec<Finding>) -> Vec<Finding> {
    let more = findings.len().saturating_sub(MAX_LISTED);
    findings.truncate(MAX_LISTED);
    if let (1.., Some(last)) = (more, findings.last()) {
        let finding = Finding {
            what: format!("{more} more objects"),
            message: "have the same problem".to_owned(),
            ..last.clone()
        };
        findings.push(Finding { advice: Some("run `ensemblectl status -A`".to_owned()), ..finding });
    }
    findings
}

/// Reports an object that has been terminating for too long.
fn stuck(kind: &Kind, object: &DynamicObject, after: Duration, now: Timestamp) -> Option<Finding> {
    let since = now.duration_since(deletion_time(object)?);
    if !is_longer(since, after) {
        return None;
    }
    let readiness = readiness(object, kind.has_controller());
    let message = format!("has been terminating for {}, {}", human_duration(since), readiness.message);
    let advice = format!(
        "check that the controller {} has a leader, and run `{}`; if you remove a finalizer yourself, what it \
         protects is not cleaned up",
        kind.controller.name,
        status_command(kind, object)
    );
    Some(Finding::error(&name(kind, object), message, advice))
}

/// Reports an object that has not been Ready for too long.
fn unready(kind: &Kind, object: &DynamicObject, after: Duration, now: Timestamp) -> Option<Finding> {
    let readiness = readiness(object, kind.has_controller());
    let since = now.duration_since(readiness.since?);
    if deletion_time(object).is_some() || readiness.ready == "True" || !is_longer(since, after) {
        return None;
    }
    let message = format!(
        "has not been Ready for {}: {}: {}",
        human_duration(since),
        readiness.reason,
        readiness.message
    );
    let advice = format!("run `{}`", status_command(kind, object));
    Some(Finding::warning(&name(kind, object), message, advice))
}

fn is_longer(since: SignedDuration, limit: Duration) -> bool {
    SignedDuration::try_from(limit).is_ok_and(|limit| since > limit)
}

fn name(kind: &Kind, object: &DynamicObject) -> String {
    kind.describe(&object.namespace().unwrap_or_default(), &object.name_any())
}

/// Returns the command that shows the object in detail.
fn status_command(kind: &Kind, object: &DynamicObject) -> String {
    let namespace = object.namespace().map(|namespace| format!(" --namespace {namespace}"));
    let plural = &kind.definition.spec.names.plural;
    format!("ensemblectl status {plural} {}{}", object.name_any(), namespace.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{check::finding::State, kinds::find, testing::object};

    const LIMITS: Limits =
        Limits { stuck_after: Duration::from_mins(1), unready_after: Duration::from_mins(5) };

    fn finding(metadata: Value, conditions: Value) -> Finding {
        let mut metadata = metadata;
        metadata["name"] = json!("web");
        metadata["namespace"] = json!("shop");
        metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let object = object(json!({ "metadata": metadata, "status": { "conditions": conditions } }));
        evaluate(&[(find("podset").unwrap(), object)], LIMITS, "2026-01-01T00:10:00Z".parse().unwrap())
            .remove(0)
    }

    fn ready(status: &str, since: &str) -> Value {
        json!([{ "type": "Ready", "status": status, "reason": "Why", "message": "because", "lastTransitionTime": since }])
    }

    #[test]
    fn reports_objects_stuck_in_deletion() {
        let terminating =
            |since: &str| finding(json!({ "deletionTimestamp": since, "finalizers": ["x/y"] }), json!([]));
        let stuck = terminating("2026-01-01T00:05:00Z");
        assert_eq!((stuck.state, &*stuck.what), (State::Error, "PodSet shop/web"));
        assert_eq!(stuck.message, "has been terminating for 5m, waiting for finalizers: x/y");
        assert!(stuck.advice.unwrap().contains("`ensemblectl status podsets web --namespace shop`"));
        assert_eq!(terminating("2026-01-01T00:09:30Z").state, State::Ok);
    }

    #[test]
    fn warns_about_objects_that_are_not_ready_for_long() {
        let unready = finding(json!({}), ready("False", "2026-01-01T00:01:00Z"));
        assert_eq!(
            (unready.state, &*unready.message),
            (State::Warning, "has not been Ready for 9m: Why: because")
        );
        assert_eq!(finding(json!({}), ready("False", "2026-01-01T00:09:00Z")).state, State::Ok);
        assert_eq!(finding(json!({}), ready("True", "2026-01-01T00:01:00Z")).state, State::Ok);
        assert!(finding(json!({}), json!([])).message.contains("no controller has observed"));
    }

    #[test]
    fn truncates_long_lists() {
        let one = finding(json!({}), ready("False", "2026-01-01T00:01:00Z"));
        let findings = truncate(vec![one; MAX_LISTED + 3]);
        assert_eq!(
            (findings.len(), &*findings[MAX_LISTED].what, findings[MAX_LISTED].state),
            (MAX_LISTED + 1, "3 more objects", State::Warning)
        );
    }
}
