//! Which calls are due, how often they are tried, and what is said of them. Pure.

use std::time::Duration;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};
use kube::ResourceExt;
use operator_core::conditions::Verdict;

use crate::{
    api::{Hook, HookEvent, HookState, HookStatus, NamespacePlus},
    words::{self, HOOKS_DELIVERED},
};

/// How often a call is tried: for half an hour and more, since a pipeline may be down for maintenance.
const TRIES: i32 = 12;
/// How often a call is tried for which somebody waits: a NamespacePlus that is being deleted stays until then.
const LAST_TRIES: i32 = 5;
/// The longest pause between two tries, in seconds.
const LONGEST_PAUSE: i64 = 300;
/// How long the status may take to be written before a call, in seconds. The call itself has its whole timeout then.
pub(super) const WRITE: i32 = 2;
/// By how much the clocks of two machines may differ, in seconds.
const SKEW: i32 = 5;

/// Something that has happened to the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) event: HookEvent,
    /// What tells this time from others: the namespace's UID, for one that was deleted and made again is another.
    pub(crate) occasion: String,
}

/// A call that is to be made once.
pub(super) struct Call<'h> {
    pub(super) hook: &'h Hook,
    pub(super) event: HookEvent,
    /// The same for each try, and for no other call.
    pub(super) id: String,
}

/// The calls for what has happened, in the order of the spec.
pub(super) fn calls<'h>(object: &'h NamespacePlus, happened: &[Happened]) -> Vec<Call<'h>> {
    let uid = object.uid().unwrap_or_default();
    let of_hook = |hook: &'h Hook| {
        let heard = happened.iter().filter(|happened| hook.listens_to(happened.event));
        let calls = heard.map(|Happened { event, occasion }| {
            let id = format!("{uid}/{}/{}/{occasion}", hook.name, event.as_str());
            Call { hook, event: *event, id }
        });
        calls.collect::<Vec<_>>()
    };
    object.spec.hooks.iter().flat_map(of_hook).collect()
}

/// What is known while nothing new has happened.
pub(crate) fn known(object: &NamespacePlus) -> Vec<HookStatus> {
    known_of(object, &[])
}

/// What the status knows of the calls. Calls that were never tried are pending. A new spec gives calls that had been
/// given up another chance. What is known of other events stays as long as their hook listens to them.
pub(super) fn known_of(object: &NamespacePlus, calls: &[Call<'_>]) -> Vec<HookStatus> {
    let said = object.status.as_ref().map(|status| status.hooks.as_slice()).unwrap_or_default();
    let observed = object.status.as_ref().and_then(|status| status.observed_generation);
    let is_new_spec = observed != object.metadata.generation;
    let of_call = |call: &Call<'_>| {
        let found = said.iter().find(|one| one.id == call.id);
        match found {
            Some(one) if one.state != HookState::Failed || !is_new_spec => one.clone(),
            _ => HookStatus {
                name: call.hook.name.clone(),
                event: call.event,
                id: call.id.clone(),
                state: HookState::Pending,
                attempts: 0,
                last_attempt: None,
                under_way_until: None,
                message: String::new(),
            },
        }
    };
    let current = calls.iter().map(of_call);
    let is_current =
        |one: &HookStatus| calls.iter().any(|call| call.hook.name == one.name && call.event == one.event);
    let listens = |one: &HookStatus| {
        object.spec.hooks.iter().any(|hook| hook.name == one.name && hook.listens_to(one.event))
    };
    let earlier = said.iter().filter(|one| !is_current(one) && listens(one)).cloned();
    let mut known: Vec<_> = current.chain(earlier).collect();
    known.sort_by(|a, b| (&a.name, a.event).cmp(&(&b.name, b.event)));
    known
}

/// Whether a call is to be made now.
pub(super) fn is_due(one: &HookStatus, now: Timestamp) -> bool {
    one.state == HookState::Pending && next_try(one).is_none_or(|next| next <= now)
}

/// When a call is to be made again: one that has failed after a pause, one that is under way when it must have come to
/// its end, whatever became of who makes it. At once, if it was never made.
fn next_try(one: &HookStatus) -> Option<Timestamp> {
    if let Some(until) = &one.under_way_until {
        return Some(until.0);
    }
    let last = one.last_attempt.as_ref()?.0;
    let doublings = u32::try_from(one.attempts.saturating_sub(1)).unwrap_or_default().min(16);
    Some(after(last, (1_i64 << doublings).min(LONGEST_PAUSE)))
}

/// Takes note that a call is made from now on, by whoever gets this into the status.
pub(super) fn begin(one: &mut HookStatus, hook: &Hook, now: Timestamp) {
    one.attempts = one.attempts.saturating_add(1);
    one.last_attempt = Some(Time(now));
    let longest = hook.timeout_seconds.saturating_add(WRITE + SKEW);
    one.under_way_until = Some(Time(after(now, longest.into())));
    "it has not answered yet".clone_into(&mut one.message);
}

/// Takes note of what came of a try.
pub(super) fn note(one: &mut HookStatus, result: Result<u16, String>, now: Timestamp) {
    one.last_attempt = Some(Time(now));
    one.under_way_until = None;
    (one.state, one.message) = match result {
        Ok(code) => (HookState::Delivered, format!("it answered {code}")),
        Err(why) if one.attempts >= tries(one.event) => {
            (HookState::Failed, format!("given up after {} tries: {why}", one.attempts))
        }
        Err(why) => (HookState::Pending, why),
    };
}

fn after(moment: Timestamp, seconds: i64) -> Timestamp {
    moment.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(moment)
}

fn tries(event: HookEvent) -> i32 {
    if event == HookEvent::Deleted { LAST_TRIES } else { TRIES }
}

/// Whether nothing is to be called any more.
pub(crate) fn is_settled(known: &[HookStatus]) -> bool {
    known.iter().all(|one| one.state != HookState::Pending)
}

/// How long until the next call is due, if any is pending.
pub(crate) fn wait(known: &[HookStatus], now: Timestamp) -> Option<Duration> {
    let pending = known.iter().filter(|one| one.state == HookState::Pending);
    let waits = pending.map(|one| {
        let wait = next_try(one).map(|next| next.duration_since(now)).unwrap_or_default();
        // One that is due and was not made found no room.
        Duration::try_from(wait).unwrap_or_default().max(Duration::from_secs(1))
    });
    waits.min()
}

/// The calls that have been given up, and had not been before.
pub(crate) fn has_failed_now<'k>(before: &[HookStatus], after: &'k [HookStatus]) -> Vec<&'k HookStatus> {
    let had_failed = |id: &str| before.iter().any(|one| one.id == id && one.state == HookState::Failed);
    after.iter().filter(|one| one.state == HookState::Failed && !had_failed(&one.id)).collect()
}

/// The condition that sums the calls up.
pub(crate) fn verdict(object: &NamespacePlus, known: &[HookStatus]) -> Verdict {
    if object.spec.hooks.is_empty() {
        return Verdict::is_true(HOOKS_DELIVERED, words::NO_HOOKS, "no hooks are declared");
    }
    let told = |state| {
        let of_state = known.iter().filter(move |one: &&HookStatus| one.state == state);
        let words: Vec<_> = of_state.map(words).collect();
        words.join("; ")
    };
    let (failed, pending) = (told(HookState::Failed), told(HookState::Pending));
    if !failed.is_empty() {
        let message = format!("{failed}. A change of the spec has it tried again");
        Verdict::is_false(HOOKS_DELIVERED, words::HOOK_FAILED, message)
    } else if !pending.is_empty() {
        Verdict::is_false(HOOKS_DELIVERED, words::HOOK_PENDING, pending)
    } else {
        let delivered = known.len();
        Verdict::is_true(HOOKS_DELIVERED, words::DELIVERED, format!("{delivered} calls were taken"))
    }
}

fn words(one: &HookStatus) -> String {
    let (name, event) = (&one.name, one.event.as_str());
    if one.message.is_empty() {
        format!("{name} is to be called for {event}")
    } else {
        format!("{name}, called for {event}: {}", one.message)
    }
}

#[cfg(test)]
mod tests;
