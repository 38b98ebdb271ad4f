//! Conditions, readiness, and state of an object. Pure.
//!
//! Malformed fields are treated as missing.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, api::DynamicObject};
use operator_core::conditions::{READY, find};
use serde::Serialize;
use serde_json::Value;

/// Readiness of an object, from its condition Ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Readiness {
    /// Status of the condition Ready. `Unknown` if it describes an earlier generation of the spec.
    /// Empty for kinds without a controller.
    pub(crate) ready: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Last transition of the condition, or start of the deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
}

/// Returns the conditions of an object. Skips malformed entries.
pub(crate) fn conditions(object: &DynamicObject) -> Vec<Condition> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let read = |condition: &Value| serde_json::from_value(condition.clone()).ok();
    conditions.into_iter().flatten().filter_map(read).collect()
}

/// Returns the creation timestamp.
pub(crate) fn creation_time(object: &DynamicObject) -> Option<Timestamp> {
    object.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Returns the deletion timestamp.
pub(crate) fn deletion_time(object: &DynamicObject) -> Option<Timestamp> {
    object.metadata.deletion_timestamp.as_ref().map(|time| time.0)
}

/// Returns the readiness of an object.
///
/// `has_controller` is whether a controller writes the status of the kind.
pub(crate) fn readiness(object: &DynamicObject, has_controller: bool) -> Readiness {
    let conditions = conditions(object);
    let ready = find(&conditions, READY);
    if let Some(since) = deletion_time(object) {
        let finalizers = object.finalizers().join(", ");
        let message = ready.map_or("", |ready| &ready.message);
        let message = match (finalizers.is_empty(), message) {
            (true, message) => message.to_owned(),
            (false, "") => format!("waiting for finalizers: {finalizers}"),
            (false, message) => format!("waiting for finalizers: {finalizers}; {message}"),
        };
        return Readiness {
            ready: "False".to_owned(),
            reason: "Terminating".to_owned(),
            message,
            since: Some(since),
        };
    }
    match ready {
        Some(ready) if is_current(object, ready) => Readiness {
            ready: ready.status.clone(),
            reason: ready.reason.clone(),
            message: ready.message.clone(),
            since: Some(ready.last_transition_time.0),
        },
        Some(_) => {
            not_observed("the controller has not observed the current spec yet", creation_time(object))
        }
        None if has_controller => {
            not_observed("no controller has observed the object yet", creation_time(object))
        }
        None => {
            Readiness { ready: String::new(), reason: String::new(), message: String::new(), since: None }
        }
    }
}

fn not_observed(message: &str, since: Option<Timestamp>) -> Readiness {
    Readiness {
        ready: "Unknown".to_owned(),
        reason: "NotObserved".to_owned(),
        message: message.to_owned(),
        since,
    }
}

/// Returns whether a condition describes the current generation of the spec.
pub(crate) fn is_current(object: &DynamicObject, condition: &Condition) -> bool {
    let observed = condition.observed_generation;
    let observed =
        observed.or_else(|| object.data.pointer("/status/observedGeneration").and_then(Value::as_i64));
    match (observed, object.metadata.generation) {
        (Some(observed), Some(current)) => observed >= current,
        _ => true,
    }
}

/// Returns a short state of an object of any kind, from its status. Empty if it has none.
pub(crate) fn state(object: &DynamicObject) -> String {
    let status = object.data.get("status");
    let text = |field: &str| status.and_then(|status| status.get(field)?.as_str()).unwrap_or_default();
    let number = |value: Option<&Value>| value.and_then(Value::as_i64);
    if deletion_time(object).is_some() {
        return "Terminating".to_owned();
    }
    if let Some(desired) = number(object.data.pointer("/spec/replicas")) {
        let ready = number(status.and_then(|status| status.get("readyReplicas"))).unwrap_or_default();
        return format!("{ready}/{desired} ready");
    }
    let conditions = lenient_conditions(object);
    let find = |type_: &str| conditions.iter().find(|(name, ..)| name == type_);
    if let Some((_, status, reason)) = find(READY).or_else(|| find("Available")) {
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

/// Returns type, status, and reason of each condition. Other kinds can lack further fields.
fn lenient_conditions(object: &DynamicObject) -> Vec<(String, String, String)> {
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

    fn ready(status: &str, observed: i64) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": "Why", "message": "because", "observedGeneration": observed,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    }

    #[test]
    fn ready_condition_counts_only_for_the_current_generation() {
        let readiness_of = |generation: i64, status: Value| {
            let object =
                object(json!({ "metadata": { "name": "a", "generation": generation }, "status": status }));
            let readiness = readiness(&object, true);
            (readiness.ready, readiness.reason)
        };
        let pair = |ready: &str, reason: &str| (ready.to_owned(), reason.to_owned());
        assert_eq!(readiness_of(1, json!({ "conditions": ready("True", 1) })), pair("True", "Why"));
        assert_eq!(
            readiness_of(2, json!({ "conditions": ready("True", 1) })),
            pair("Unknown", "NotObserved")
        );
        assert_eq!(readiness_of(1, json!({ "conditions": ready("False", 1) })), pair("False", "Why"));
        assert_eq!(readiness_of(1, json!({ "conditions": "nonsense" })), pair("Unknown", "NotObserved"));
        assert_eq!(readiness_of(1, Value::Null), pair("Unknown", "NotObserved"));
    }

    #[test]
    fn kind_without_controller_has_no_readiness() {
        assert_eq!(readiness(&object(json!({ "metadata": { "name": "a" } })), false).ready, "");
    }

    #[test]
    fn terminating_object_names_its_finalizers() {
        let terminating = object(json!({
            "metadata": { "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"] },
            "status": { "conditions": ready("False", 1) },
        }));
        let readiness = readiness(&terminating, true);
        assert_eq!(
            (&*readiness.reason, &*readiness.message),
            ("Terminating", "waiting for finalizers: x/y; because")
        );
    }

    #[test]
    fn state_is_derived_from_replicas_conditions_or_phase() {
        let state_of = |fields: Value| state(&object(fields));
        assert_eq!(
            state_of(json!({ "spec": { "replicas": 3 }, "status": { "readyReplicas": 2 } })),
            "2/3 ready"
        );
        assert_eq!(state_of(json!({ "spec": { "replicas": 3 } })), "0/3 ready");
        assert_eq!(state_of(json!({ "status": { "phase": "Active" } })), "Active");
        assert_eq!(
            state_of(json!({ "status": { "phase": "Failed", "reason": "Evicted" } })),
            "Failed: Evicted"
        );
        let pod = json!({ "status": { "phase": "Running", "conditions": [
            { "type": "Ready", "status": "False", "reason": "ContainersNotReady" },
        ] } });
        assert_eq!(state_of(pod), "not Ready: ContainersNotReady");
        assert_eq!(state_of(json!({ "data": {} })), "");
    }
}
