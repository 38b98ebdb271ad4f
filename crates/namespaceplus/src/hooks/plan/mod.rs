//! Computes which calls are due, the backoff, and the condition. Pure functions.

use std::time::Duration;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};
use kube::ResourceExt;
use operator_core::conditions::NewCondition;

use crate::{
    api::{Hook, HookEvent, HookState, HookStatus, NamespacePlus},
    condition_types::HOOKS_DELIVERED,
    reasons,
};

/// Maximum number of attempts. With backoff they take more than half an hour, because a receiver
/// may be down for maintenance.
const MAX_ATTEMPTS: i32 = 12;
/// Maximum number of attempts for calls that block the deletion of the NamespacePlus.
const MAX_ATTEMPTS_ON_DELETION: i32 = 5;
/// Maximum backoff in seconds.
const MAX_BACKOFF_SECONDS: i64 = 300;
/// Time for the status write before a call, in seconds. The call has its whole timeout afterwards.
pub(super) const STATUS_WRITE_SECONDS: i32 = 2;
/// Maximum clock skew between two machines, in seconds.
const CLOCK_SKEW_SECONDS: i32 = 5;

/// Occurrence of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Occurrence {
    pub(crate) event: HookEvent,
    /// Distinguishes occurrences of the event: the UID of the namespace.
    pub(crate) occurrence_id: String,
}

/// A call to make.
pub(super) struct Call<'h> {
    pub(super) hook: &'h Hook,
    pub(super) event: HookEvent,
    /// Identifies the call. All attempts have the same.
    pub(super) id: String,
}

/// Returns the calls for these events, in the order of the spec.
pub(super) fn calls<'h>(object: &'h NamespacePlus, occurrences: &[Occurrence]) -> Vec<Call<'h>> {
    let uid = object.uid().unwrap_or_default();
    let of_hook = |hook: &'h Hook| {
        let heard = occurrences.iter().filter(|occurrences| hook.subscribes_to(occurrences.event));
        let calls = heard.map(|Occurrence { event, occurrence_id }| {
            let id = format!("{uid}/{}/{}/{occurrence_id}", hook.name, event.as_str());
            Call { hook, event: *event, id }
        });
        calls.collect::<Vec<_>>()
    };
    object.spec.hooks.iter().flat_map(of_hook).collect()
}

/// Returns the status of all calls if no event happened.
pub(crate) fn current_statuses(object: &NamespacePlus) -> Vec<HookStatus> {
    statuses_for(object, &[])
}

/// Returns the status of all calls.
///
/// New calls are pending. A change of the spec resets failed calls. The status of other events
/// stays while the hook subscribes to them.
pub(super) fn statuses_for(object: &NamespacePlus, calls: &[Call<'_>]) -> Vec<HookStatus> {
    let previous = object.status.as_ref().map(|status| status.hooks.as_slice()).unwrap_or_default();
    let observed = object.status.as_ref().and_then(|status| status.observed_generation);
    let is_new_spec = observed != object.metadata.generation;
    let of_call = |call: &Call<'_>| {
        let found = previous.iter().find(|one| one.id == call.id);
        match found {
            Some(one) if one.state != HookState::Failed || !is_new_spec => one.clone(),
            _ => HookStatus {
                name: call.hook.name.clone(),
                event: call.event,
                id: call.id.clone(),
                state: HookState::Pending,
                attempts: 0,
                last_attempt: None,
                attempt_deadline: None,
                message: String::new(),
            },
        }
    };
    let current = calls.iter().map(of_call);
    let is_current =
        |one: &HookStatus| calls.iter().any(|call| call.hook.name == one.name && call.event == one.event);
    let listens = |one: &HookStatus| {
        object.spec.hooks.iter().any(|hook| hook.name == one.name && hook.subscribes_to(one.event))
    };
    let earlier = previous.iter().filter(|one| !is_current(one) && listens(one)).cloned();
    let mut known: Vec<_> = current.chain(earlier).collect();
    known.sort_by(|a, b| (&a.name, a.event).cmp(&(&b.name, b.event)));
    known
}

/// Returns whether the call is due.
pub(super) fn is_due(one: &HookStatus, now: Timestamp) -> bool {
    one.state == HookState::Pending && next_attempt(one).is_none_or(|next| next <= now)
}

/// Returns the time of the next attempt, or `None` if the call was never attempted.
///
/// A failed call has a backoff. A started call must have timed out, even if the manager crashed.
fn next_attempt(one: &HookStatus) -> Option<Timestamp> {
    if let Some(until) = &one.attempt_deadline {
        return Some(until.0);
    }
    let last = one.last_attempt.as_ref()?.0;
    let doublings = u32::try_from(one.attempts.saturating_sub(1)).unwrap_or_default().min(16);
    Some(after(last, (1_i64 << doublings).min(MAX_BACKOFF_SECONDS)))
}

/// Marks the call as started by the manager that writes this status.
pub(super) fn start(one: &mut HookStatus, hook: &Hook, now: Timestamp) {
    one.attempts = one.attempts.saturating_add(1);
    one.last_attempt = Some(Time(now));
    let longest = hook.timeout_seconds.saturating_add(STATUS_WRITE_SECONDS + CLOCK_SKEW_SECONDS);
    one.attempt_deadline = Some(Time(after(now, longest.into())));
    "no response yet".clone_into(&mut one.message);
}

/// Records the result of an attempt.
pub(super) fn record_result(one: &mut HookStatus, result: Result<u16, String>, now: Timestamp) {
    one.last_attempt = Some(Time(now));
    one.attempt_deadline = None;
    (one.state, one.message) = match result {
        Ok(code) => (HookState::Delivered, format!("the receiver answered {code}")),
        Err(cause) if one.attempts >= max_attempts(one.event) => {
            (HookState::Failed, format!("gave up after {} attempts: {cause}", one.attempts))
        }
        Err(cause) => (HookState::Pending, cause),
    };
}

fn after(moment: Timestamp, seconds: i64) -> Timestamp {
    moment.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(moment)
}

fn max_attempts(event: HookEvent) -> i32 {
    if event == HookEvent::Deleted { MAX_ATTEMPTS_ON_DELETION } else { MAX_ATTEMPTS }
}

/// Returns whether no call is pending.
pub(crate) fn none_pending(known: &[HookStatus]) -> bool {
    known.iter().all(|one| one.state != HookState::Pending)
}

/// Returns the time until the next call is due, if one is pending.
pub(crate) fn next_attempt_in(known: &[HookStatus], now: Timestamp) -> Option<Duration> {
    let pending = known.iter().filter(|one| one.state == HookState::Pending);
    let waits = pending.map(|one| {
        let wait = next_attempt(one).map(|next| next.duration_since(now)).unwrap_or_default();
        // A call that is due but was not made had no permit.
        Duration::try_from(wait).unwrap_or_default().max(Duration::from_secs(1))
    });
    waits.min()
}

/// Returns the calls that failed permanently since `before`.
pub(crate) fn newly_failed<'k>(before: &[HookStatus], after: &'k [HookStatus]) -> Vec<&'k HookStatus> {
    let had_failed = |id: &str| before.iter().any(|one| one.id == id && one.state == HookState::Failed);
    after.iter().filter(|one| one.state == HookState::Failed && !had_failed(&one.id)).collect()
}

/// Computes the condition HooksDelivered.
pub(crate) fn hooks_delivered(object: &NamespacePlus, known: &[HookStatus]) -> NewCondition {
    if object.spec.hooks.is_empty() {
        return NewCondition::is_true(HOOKS_DELIVERED, reasons::NO_HOOKS, "the spec has no hooks");
    }
    let messages = |state| {
        let of_state = known.iter().filter(move |one: &&HookStatus| one.state == state);
        let descriptions: Vec<_> = of_state.map(describe).collect();
        descriptions.join("; ")
    };
    let (failed, pending) = (messages(HookState::Failed), messages(HookState::Pending));
    if !failed.is_empty() {
        let message = format!("{failed}. To retry, change the spec");
        NewCondition::is_false(HOOKS_DELIVERED, reasons::HOOK_FAILED, message)
    } else if !pending.is_empty() {
        NewCondition::is_false(HOOKS_DELIVERED, reasons::HOOK_PENDING, pending)
    } else {
        let delivered = known.len();
        NewCondition::is_true(HOOKS_DELIVERED, reasons::DELIVERED, format!("{delivered} calls were accepted"))
    }
}

fn describe(one: &HookStatus) -> String {
    let (name, event) = (&one.name, one.event.as_str());
    if one.message.is_empty() {
        format!("hook {name} is due for event {event}")
    } else {
        format!("hook {name}, event {event}: {}", one.message)
    }
}

#[cfg(test)]
mod tests;
