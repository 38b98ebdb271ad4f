//! Conditions: typed statements about an object, kept as Kubernetes' API conventions ask.
//!
//! ```
//! use k8s_openapi::jiff::Timestamp;
//! use operator_core::conditions::{Verdict, set};
//!
//! let mut conditions = Vec::new();
//! let ready = Verdict::is_false("Ready", "Creating", "1 of 3 pods exist");
//! assert!(set(&mut conditions, &ready, 1, Timestamp::UNIX_EPOCH));
//! assert!(!set(&mut conditions, &ready, 1, Timestamp::now()), "the same verdict again is no change");
//! ```

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

pub mod reasons;

/// The condition type that sums up whether an object is as its spec asks.
pub const READY: &str = "Ready";

/// What is to be said of an object, before a point in time and a generation make it a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The condition's type.
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: Status,
    /// A word in `CamelCase` for programs.
    pub reason: &'static str,
    /// A sentence for people: what is the case and, if something is wrong, what they can do.
    pub message: String,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// It could not be found out.
    Unknown,
}

impl Status {
    /// The word that stands in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Verdict {
    /// The statement holds.
    pub fn is_true(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::True, reason, message: message.into() }
    }

    /// The statement does not hold.
    pub fn is_false(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, status: Status::False, reason, message: message.into() }
    }
}

/// Puts a verdict among the conditions and says whether anything changed.
///
/// `lastTransitionTime` moves only when the status does; an equal verdict leaves the list as it is, so that
/// comparing the list tells whether there is anything to write.
pub fn set(conditions: &mut Vec<Condition>, verdict: &Verdict, generation: i64, now: Timestamp) -> bool {
    let mut next = Condition {
        type_: verdict.type_.to_owned(),
        status: verdict.status.as_str().to_owned(),
        reason: verdict.reason.to_owned(),
        message: verdict.message.clone(),
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

/// The conditions that follow from the present ones and the verdicts, in the verdicts' order.
///
/// Conditions of other types are dropped: the list says exactly what the controller says now.
pub fn settle(
    present: &[Condition],
    verdicts: &[Verdict],
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    let mut known = present.to_vec();
    for verdict in verdicts {
        set(&mut known, verdict, generation, now);
    }
    verdicts.iter().filter_map(|verdict| find(&known, verdict.type_).cloned()).collect()
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of a type has status `True`.
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
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        set(&mut conditions, &Verdict::is_false(READY, "Creating", "0 of 1"), 1, at(1));
        set(&mut conditions, &Verdict::is_false(READY, "Creating", "still 0 of 1"), 2, at(2));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert_eq!(conditions[0].observed_generation, Some(2));
        set(&mut conditions, &Verdict::is_true(READY, "Complete", "1 of 1"), 2, at(3));
        assert_eq!(conditions[0].last_transition_time, Time(at(3)));
    }

    #[test]
    fn settling_drops_what_is_no_longer_said_and_keeps_the_order() {
        let now = [Verdict::is_true("B", "Yes", ""), Verdict::is_true("A", "Yes", "")];
        let before =
            settle(&[], &[Verdict::is_true("A", "Yes", ""), Verdict::is_true("C", "Yes", "")], 1, at(1));
        let after = settle(&before, &now, 1, at(2));
        let types: Vec<_> = after.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, ["B", "A"]);
        assert_eq!(after[1].last_transition_time, Time(at(1)));
    }
}
