//! Our objects: those that do not go, and those that are not Ready.

use std::time::Duration;

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt, api::DynamicObject};

use super::Finding;
use crate::{
    age::words,
    connect::Cluster,
    flags::Limits,
    installation::Installation,
    kinds::Kind,
    object::{deleted, readiness},
};

/// How many are told one by one.
const MOST: usize = 20;

/// What was found about the objects of all kinds.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation, limits: Limits) -> Vec<Finding> {
    let mut objects = Vec::new();
    for kind in installation.kinds() {
        let listed = kind.list(&cluster.client, None).await;
        match listed.with_context(|| format!("cannot list the {} objects", kind.name())) {
            // A missing definition has been told.
            Ok(listed) => objects.extend(listed.into_iter().flatten().map(|object| (kind.clone(), object))),
            Err(error) => return vec![Finding::unknown("objects", &error)],
        }
    }
    judge(&objects, limits, cluster.now())
}

fn judge(objects: &[(Kind, DynamicObject)], limits: Limits, now: Timestamp) -> Vec<Finding> {
    let stuck: Vec<_> =
        objects.iter().filter_map(|(kind, object)| stuck(kind, object, limits.stuck_after, now)).collect();
    let unready: Vec<_> = objects
        .iter()
        .filter_map(|(kind, object)| unready(kind, object, limits.unready_after, now))
        .collect();
    if stuck.is_empty() && unready.is_empty() {
        return vec![Finding::ok(
            "objects",
            format!("{} there, none that cannot go and none that has long been not Ready", objects.len()),
        )];
    }
    few(stuck).into_iter().chain(few(unready)).collect()
}

/// The first of them, and how many more there are.
fn few(mut findings: Vec<Finding>) -> Vec<Finding> {
    let more = findings.len().saturating_sub(MOST);
    findings.truncate(MOST);
    if let (1.., Some(last)) = (more, findings.last()) {
        let finding = Finding {
            what: format!("{more} more objects"),
            message: "are like that".to_owned(),
            ..last.clone()
        };
        findings.push(Finding { advice: Some("ensemblectl status -A".to_owned()), ..finding });
    }
    findings
}

/// An object that was to be deleted long ago.
fn stuck(kind: &Kind, object: &DynamicObject, after: Duration, now: Timestamp) -> Option<Finding> {
    let since = now.duration_since(deleted(object)?);
    if !is_longer(since, after) {
        return None;
    }
    let said = readiness(object, kind.is_tended());
    let message = format!("has been terminating for {}, {}", words(since), said.message);
    let advice = format!(
        "the finalizers are taken off by who set them: is the controller {} led, and what does `{}` say? Taking one off \
         by hand leaves behind what it guards",
        kind.controller.name,
        status(kind, object)
    );
    Some(Finding::error(&name(kind, object), message, advice))
}

/// An object that has not been Ready for long.
fn unready(kind: &Kind, object: &DynamicObject, after: Duration, now: Timestamp) -> Option<Finding> {
    let said = readiness(object, kind.is_tended());
    let since = now.duration_since(said.since?);
    if deleted(object).is_some() || said.ready == "True" || !is_longer(since, after) {
        return None;
    }
    let message = format!("has not been Ready for {}: {}: {}", words(since), said.reason, said.message);
    Some(Finding::warning(&name(kind, object), message, status(kind, object)))
}

fn is_longer(since: SignedDuration, limit: Duration) -> bool {
    SignedDuration::try_from(limit).is_ok_and(|limit| since > limit)
}

fn name(kind: &Kind, object: &DynamicObject) -> String {
    kind.describe(&object.namespace().unwrap_or_default(), &object.name_any())
}

/// The command that tells more.
fn status(kind: &Kind, object: &DynamicObject) -> String {
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

    fn judged(metadata: Value, conditions: Value) -> Finding {
        let mut metadata = metadata;
        metadata["name"] = json!("web");
        metadata["namespace"] = json!("shop");
        metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let object = object(json!({ "metadata": metadata, "status": { "conditions": conditions } }));
        judge(&[(find("podset").unwrap(), object)], LIMITS, "2026-01-01T00:10:00Z".parse().unwrap()).remove(0)
    }

    fn ready(status: &str, since: &str) -> Value {
        json!([{ "type": "Ready", "status": status, "reason": "Why", "message": "because", "lastTransitionTime": since }])
    }

    #[test]
    fn what_cannot_go_is_wrong_after_a_while() {
        let going =
            |since: &str| judged(json!({ "deletionTimestamp": since, "finalizers": ["x/y"] }), json!([]));
        let finding = going("2026-01-01T00:05:00Z");
        assert_eq!((finding.state, &*finding.what), (State::Error, "PodSet shop/web"));
        assert_eq!(finding.message, "has been terminating for 5m, held by x/y");
        assert!(finding.advice.unwrap().contains("`ensemblectl status podsets web --namespace shop`"));
        assert_eq!(going("2026-01-01T00:09:30Z").state, State::Ok);
    }

    #[test]
    fn what_is_not_ready_is_worth_a_look_after_a_while() {
        let finding = judged(json!({}), ready("False", "2026-01-01T00:01:00Z"));
        assert_eq!(
            (finding.state, &*finding.message),
            (State::Warning, "has not been Ready for 9m: Why: because")
        );
        assert_eq!(judged(json!({}), ready("False", "2026-01-01T00:09:00Z")).state, State::Ok);
        assert_eq!(judged(json!({}), ready("True", "2026-01-01T00:01:00Z")).state, State::Ok);
        assert!(judged(json!({}), json!([])).message.contains("no controller has looked"));
    }

    #[test]
    fn many_are_told_in_short() {
        let one = judged(json!({}), ready("False", "2026-01-01T00:01:00Z"));
        let told = few(vec![one; MOST + 3]);
        assert_eq!(
            (told.len(), &*told[MOST].what, told[MOST].state),
            (MOST + 1, "3 more objects", State::Warning)
        );
    }
}
