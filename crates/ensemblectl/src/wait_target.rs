//! The state that `wait` waits for. Pure.

use std::{fmt, str::FromStr};

use kube::{ResourceExt, api::DynamicObject};
use operator_core::conditions::find;

use crate::object::{conditions, deletion_time, is_current};

/// State that `wait` waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitTarget {
    /// The object does not exist.
    Deleted,
    /// A condition has a status.
    Condition {
        /// Type of the condition.
        type_: String,
        /// Status of the condition.
        status: String,
    },
}

impl FromStr for WaitTarget {
    type Err = String;

    /// Parses `deleted`, `Ready`, or `Progressing=False`.
    ///
    /// Also accepts the notation of kubectl: `delete` and `condition=Ready`.
    fn from_str(text: &str) -> Result<Self, String> {
        if ["deleted", "delete"].contains(&text) {
            return Ok(Self::Deleted);
        }
        let text = text.strip_prefix("condition=").unwrap_or(text);
        let (type_, status) = text.split_once('=').unwrap_or((text, "True"));
        let is_valid =
            |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric());
        if !is_valid(type_) || !is_valid(status) {
            return Err("use a condition such as Ready, CONDITION=STATUS, or deleted".to_owned());
        }
        Ok(Self::Condition { type_: type_.to_owned(), status: status.to_owned() })
    }
}

impl fmt::Display for WaitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted => f.write_str("deleted"),
            Self::Condition { type_, status } if status == "True" => f.write_str(type_),
            Self::Condition { type_, status } => write!(f, "{type_}={status}"),
        }
    }
}

impl WaitTarget {
    /// Checks whether the object has reached the state. `None` is an object that does not exist.
    ///
    /// # Errors
    /// Returns the reason why the object has not reached the state.
    pub(crate) fn check(&self, object: Option<&DynamicObject>) -> Result<(), String> {
        match (self, object) {
            (Self::Deleted, None) => Ok(()),
            (Self::Deleted, Some(object)) => Err(deletion_progress(object)),
            (Self::Condition { .. }, None) => Err("the object does not exist".to_owned()),
            (Self::Condition { type_, status }, Some(object)) => check_condition(object, type_, status),
        }
    }
}

fn deletion_progress(object: &DynamicObject) -> String {
    if deletion_time(object).is_none() {
        return "its deletion was not requested".to_owned();
    }
    let ready = conditions(object).into_iter().find(|condition| condition.type_ == "Ready");
    let ready =
        ready.map(|ready| format!("; Ready is {}: {}: {}", ready.status, ready.reason, ready.message));
    let ready = ready.unwrap_or_default();
    match object.finalizers() {
        [] => format!("it is being deleted{ready}"),
        finalizers => format!("it is waiting for finalizers: {}{ready}", finalizers.join(", ")),
    }
}

fn check_condition(object: &DynamicObject, type_: &str, status: &str) -> Result<(), String> {
    let all = conditions(object);
    let Some(condition) = find(&all, type_) else {
        let existing: Vec<_> = all.iter().map(|condition| condition.type_.as_str()).collect();
        return Err(if existing.is_empty() {
            "it has no conditions: no controller has observed the object yet".to_owned()
        } else {
            format!("it has no condition {type_}; its conditions are {}", existing.join(", "))
        });
    };
    if !is_current(object, condition) {
        return Err("the controller has not observed the current spec yet".to_owned());
    }
    if condition.status.eq_ignore_ascii_case(status) {
        return Ok(());
    }
    Err(format!("{type_} is {}: {}: {}", condition.status, condition.reason, condition.message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::object;

    fn target(text: &str) -> WaitTarget {
        text.parse().unwrap()
    }

    fn with_conditions(conditions: Value) -> DynamicObject {
        object(
            json!({ "metadata": { "name": "a", "generation": 2 }, "status": { "conditions": conditions } }),
        )
    }

    fn ready(status: &str, observed: i64) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": "Counted", "message": "2 of 3", "observedGeneration": observed,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    }

    #[test]
    fn parses_targets_of_kubectl_and_short_forms() {
        assert_eq!(target("deleted"), WaitTarget::Deleted);
        assert_eq!(target("Ready"), target("condition=Ready=True"));
        assert_eq!(target("Progressing=False").to_string(), "Progressing=False");
        assert_eq!(target("Ready").to_string(), "Ready");
        for bad in ["", "=True", "Ready=", "jsonpath={.status}"] {
            assert!(bad.parse::<WaitTarget>().is_err(), "{bad}");
        }
    }

    #[test]
    fn condition_counts_only_for_the_current_generation() {
        let check = |text: &str, conditions: Value| target(text).check(Some(&with_conditions(conditions)));
        assert_eq!(check("Ready", ready("True", 2)), Ok(()));
        assert_eq!(check("Ready=false", ready("False", 2)), Ok(()));
        assert!(check("Ready", ready("True", 1)).unwrap_err().contains("current spec"));
        assert_eq!(check("Ready", ready("False", 2)), Err("Ready is False: Counted: 2 of 3".to_owned()));
        assert_eq!(
            check("Redy", ready("True", 2)),
            Err("it has no condition Redy; its conditions are Ready".to_owned())
        );
        assert!(check("Ready", json!([])).unwrap_err().contains("no controller has observed"));
        assert!(target("Ready").check(None).is_err());
    }

    #[test]
    fn names_the_finalizers_that_delay_deletion() {
        let existing = target("deleted").check(Some(&with_conditions(ready("True", 2)))).unwrap_err();
        assert_eq!(existing, "its deletion was not requested");
        let mut terminating = with_conditions(ready("False", 2));
        terminating.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        terminating.metadata.finalizers = Some(vec!["x/y".to_owned()]);
        let message = target("deleted").check(Some(&terminating)).unwrap_err();
        assert_eq!(message, "it is waiting for finalizers: x/y; Ready is False: Counted: 2 of 3");
        assert_eq!(target("deleted").check(None), Ok(()));
    }
}
