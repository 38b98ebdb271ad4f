//! What an object says of itself. Pure: reads whatever is there, and takes nothing for granted.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, api::DynamicObject};
use operator_core::conditions::{READY, find};
use serde::Serialize;
use serde_json::Value;

/// Whether an object is as its spec asks, and why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Readiness {
    /// The status of the condition Ready; `Unknown` if it says nothing of the present spec, empty where nobody looks
    /// after the kind.
    pub(crate) ready: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
}

/// Its conditions; what is no condition is left out.
pub(crate) fn conditions(object: &DynamicObject) -> Vec<Condition> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let read = |condition: &Value| serde_json::from_value(condition.clone()).ok();
    conditions.into_iter().flatten().filter_map(read).collect()
}

/// Since when it is there.
pub(crate) fn created(object: &DynamicObject) -> Option<Timestamp> {
    object.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Since when it is to be deleted.
pub(crate) fn deleted(object: &DynamicObject) -> Option<Timestamp> {
    object.metadata.deletion_timestamp.as_ref().map(|time| time.0)
}

/// How it is. `is_tended`: whether a controller writes the status of its kind.
pub(crate) fn readiness(object: &DynamicObject, is_tended: bool) -> Readiness {
    let conditions = conditions(object);
    let ready = find(&conditions, READY);
    if let Some(since) = deleted(object) {
        let finalizers = object.finalizers().join(", ");
        let message = ready.map_or("", |ready| &ready.message);
        let message = match (finalizers.is_empty(), message) {
            (true, message) => message.to_owned(),
            (false, "") => format!("held by {finalizers}"),
            (false, message) => format!("held by {finalizers}; {message}"),
        };
        return Readiness {
            ready: "False".to_owned(),
            reason: "Terminating".to_owned(),
            message,
            since: Some(since),
        };
    }
    match ready {
        Some(ready) if speaks_of_the_present(object, ready) => Readiness {
            ready: ready.status.clone(),
            reason: ready.reason.clone(),
            message: ready.message.clone(),
            since: Some(ready.last_transition_time.0),
        },
        Some(_) => unseen("the controller has not looked at the present spec yet", created(object)),
        None if is_tended => unseen("no controller has looked at it yet", created(object)),
        None => {
            Readiness { ready: String::new(), reason: String::new(), message: String::new(), since: None }
        }
    }
}

fn unseen(message: &str, since: Option<Timestamp>) -> Readiness {
    Readiness {
        ready: "Unknown".to_owned(),
        reason: "NotSeen".to_owned(),
        message: message.to_owned(),
        since,
    }
}

/// Whether a condition is about the spec as it is now.
pub(crate) fn speaks_of_the_present(object: &DynamicObject, condition: &Condition) -> bool {
    let seen = condition.observed_generation;
    let seen = seen.or_else(|| object.data.pointer("/status/observedGeneration").and_then(Value::as_i64));
    match (seen, object.metadata.generation) {
        (Some(seen), Some(present)) => seen >= present,
        _ => true,
    }
}

/// In a few words, how an object of any kind is; nothing if it does not say.
pub(crate) fn state(object: &DynamicObject) -> String {
    let status = object.data.get("status");
    let text = |field: &str| status.and_then(|status| status.get(field)?.as_str()).unwrap_or_default();
    let number = |value: Option<&Value>| value.and_then(Value::as_i64);
    if deleted(object).is_some() {
        return "Terminating".to_owned();
    }
    if let Some(wanted) = number(object.data.pointer("/spec/replicas")) {
        let ready = number(status.and_then(|status| status.get("readyReplicas"))).unwrap_or_default();
        return format!("{ready}/{wanted} ready");
    }
    let conditions = conditions_of_any(object);
    let said = |type_: &str| conditions.iter().find(|(name, ..)| name == type_);
    if let Some((_, status, reason)) = said(READY).or_else(|| said("Available")) {
        return match (status.as_str(), reason.as_str()) {
            ("True", _) => "Ready".to_owned(),
            (_, "") => "not Ready".to_owned(),
            (_, reason) => format!("not Ready: {reason}"),
        };
    }
    match (text("phase"), text("reason")) {
        (phase, "") => phase.to_owned(),
        (phase, reason) => format!("{phase}: {reason}"),
    }
}

/// Type, status and reason. The conditions of other people's kinds have not all the fields that ours have.
fn conditions_of_any(object: &DynamicObject) -> Vec<(String, String, String)> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let field = |condition: &Value, name: &str| {
        condition.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let read = |condition: &Value| {
        (field(condition, "type"), field(condition, "status"), field(condition, "reason"))
    };
    conditions.into_iter().flatten().map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    fn ready(status: &str, seen: i64) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": "Why", "message": "because", "observedGeneration": seen,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    }

    #[test]
    fn an_object_is_ready_if_it_says_so_of_its_present_spec() {
        let said = |generation: i64, status: Value| {
            let object =
                object(json!({ "metadata": { "name": "a", "generation": generation }, "status": status }));
            let readiness = readiness(&object, true);
            (readiness.ready, readiness.reason)
        };
        let pair = |ready: &str, reason: &str| (ready.to_owned(), reason.to_owned());
        assert_eq!(said(1, json!({ "conditions": ready("True", 1) })), pair("True", "Why"));
        assert_eq!(said(2, json!({ "conditions": ready("True", 1) })), pair("Unknown", "NotSeen"));
        assert_eq!(said(1, json!({ "conditions": ready("False", 1) })), pair("False", "Why"));
        assert_eq!(said(1, json!({ "conditions": "nonsense" })), pair("Unknown", "NotSeen"));
        assert_eq!(said(1, Value::Null), pair("Unknown", "NotSeen"));
    }

    #[test]
    fn where_nobody_looks_nothing_is_missed() {
        assert_eq!(readiness(&object(json!({ "metadata": { "name": "a" } })), false).ready, "");
    }

    #[test]
    fn one_that_is_to_go_says_what_holds_it() {
        let going = object(json!({
            "metadata": { "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"] },
            "status": { "conditions": ready("False", 1) },
        }));
        let readiness = readiness(&going, true);
        assert_eq!((&*readiness.reason, &*readiness.message), ("Terminating", "held by x/y; because"));
    }

    #[test]
    fn the_state_of_any_kind_is_what_it_says_most_plainly() {
        let said = |fields: Value| state(&object(fields));
        assert_eq!(said(json!({ "spec": { "replicas": 3 }, "status": { "readyReplicas": 2 } })), "2/3 ready");
        assert_eq!(said(json!({ "spec": { "replicas": 3 } })), "0/3 ready");
        assert_eq!(said(json!({ "status": { "phase": "Active" } })), "Active");
        assert_eq!(said(json!({ "status": { "phase": "Failed", "reason": "Evicted" } })), "Failed: Evicted");
        let pod = json!({ "status": { "phase": "Running", "conditions": [
            { "type": "Ready", "status": "False", "reason": "ContainersNotReady" },
        ] } });
        assert_eq!(said(pod), "not Ready: ContainersNotReady");
        assert_eq!(said(json!({ "data": {} })), "");
    }
}
