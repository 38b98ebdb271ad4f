//! Conditions of a status, as the Kubernetes API conventions define them.
//!
//! ```
//! use k8s_openapi::jiff::Timestamp;
//! use operator_core::conditions::{NewCondition, reasons::SCALING, set_condition};
//!
//! let mut conditions = Vec::new();
//! let ready = NewCondition::is_false("Ready", SCALING, "1 of 3 Pods exists");
//! assert!(set_condition(&mut conditions, &ready, 1, Timestamp::UNIX_EPOCH));
//! assert!(!set_condition(&mut conditions, &ready, 1, Timestamp::now()), "nothing changed");
//! ```

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

pub mod reasons;

/// Type of the condition that summarizes whether an object matches its spec.
pub const READY: &str = "Ready";

/// A condition without its transition time and generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// Type of the condition.
    pub type_: &'static str,
    /// Status of the condition.
    pub status: Status,
    /// Machine-readable reason in `CamelCase`, a constant of [`reasons`].
    pub reason: &'static str,
    /// Human-readable message: the state and, if something is wrong, the remedy.
    pub message: String,
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// The status could not be determined.
    Unknown,
}

impl Status {
    /// Returns the value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl NewCondition {
    /// Returns a condition with status `True`.
    pub fn is_true(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::True, reason, message: message.into() }
    }

    /// Returns a condition with status `False`.
    pub fn is_false(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::False, reason, message: message.into() }
    }
}

/// Sets a condition. Returns whether anything changed.
///
/// `lastTransitionTime` changes only with the status. An equal condition leaves the list unchanged,
/// so comparing the list shows whether there is anything to write.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    new: &NewCondition,
    generation: i64,
    now: Timestamp,
) -> bool {
    let mut next = Condition {
        type_: new.type_.to_owned(),
        status: new.status.as_str().to_owned(),
        reason: new.reason.to_owned(),
        message: new.message.clone(),
        observed_generation: Some(generation),
        last_transition_time: Time(now),
    };
    let Some(found) = conditions.iter_mut().find(|found| found.type_ == next.type_) else {
        conditions.push(next);
        return true;
    };
    if found.status == next.status {
        next.last_transition_time = found.last_transition_time.clone();
    }
    let changed = *found != next;
    *found = next;
    changed
}

/// Returns the conditions in the order of `new`, with the transition times of `current`.
///
/// Conditions of other types are dropped.
pub fn set_conditions(
    current: &[Condition],
    new: &[NewCondition],
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = current.to_vec();
    for condition in new {
        set_condition(&mut conditions, condition, generation, now);
    }
    new.iter().filter_map(|condition| find(&conditions, condition.type_).cloned()).collect()
}

/// Returns the condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns whether the condition of a type has status `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, &NewCondition::is_false(READY, "Scaling", "0 of 1"), 1, at(1));
        set_condition(&mut conditions, &NewCondition::is_false(READY, "Scaling", "still 0 of 1"), 2, at(2));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert_eq!(conditions[0].observed_generation, Some(2));
        set_condition(&mut conditions, &NewCondition::is_true(READY, "AsSpecified", "1 of 1"), 2, at(3));
        assert_eq!(conditions[0].last_transition_time, Time(at(3)));
    }

    #[test]
    fn drops_other_conditions_and_keeps_the_order() {
        let now = [NewCondition::is_true("B", "Yes", ""), NewCondition::is_true("A", "Yes", "")];
        let earlier = [NewCondition::is_true("A", "Yes", ""), NewCondition::is_true("C", "Yes", "")];
        let before = set_conditions(&[], &earlier, 1, at(1));
        let after = set_conditions(&before, &now, 1, at(2));
        let types: Vec<_> = after.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, ["B", "A"]);
        assert_eq!(after[1].last_transition_time, Time(at(1)));
    }
}
