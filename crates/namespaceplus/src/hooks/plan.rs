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
    reasons,
    status::HOOKS_DELIVERED,
};

/// How often a call is tried: for half an hour and more, since a pipeline may be down for maintenance.
const TRIES: i32 = 12;
/// How often a call is tried for which somebody waits: a NamespacePlus that is being deleted stays until then.
const LAST_TRIES: i32 = 5;
/// The longest pause between two tries, in seconds.
const LONGEST_PAUSE: i64 = 300;

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
        let heard = happened.iter().filter(|happened| hook.on.contains(&happened.event));
        let calls = heard.map(|Happened { event, occasion }| {
            let id = format!("{uid}/{}/{}/{occasion}", hook.name, event.as_str());
            Call { hook, event: *event, id }
        });
        calls.collect::<Vec<_>>()
    };
    object.spec.hooks.iter().flat_map(of_hook).collect()
}

/// What is known of the calls: `noted` goes before what the status says. A new spec gives calls that had been given up
/// another chance. What is known of other events stays as long as their hook listens to them.
pub(super) fn known(object: &NamespacePlus, calls: &[Call<'_>], noted: &[HookStatus]) -> Vec<HookStatus> {
    let said = object.status.as_ref().map(|status| status.hooks.as_slice()).unwrap_or_default();
    let observed = object.status.as_ref().and_then(|status| status.observed_generation);
    let is_new_spec = observed != object.metadata.generation;
    let of_call = |call: &Call<'_>| {
        let found = noted.iter().chain(said).find(|one| one.id == call.id);
        match found {
            Some(one) if one.state != HookState::Failed || !is_new_spec => one.clone(),
            _ => HookStatus {
                name: call.hook.name.clone(),
                event: call.event,
                id: call.id.clone(),
                state: HookState::Pending,
                attempts: 0,
                last_attempt: None,
                message: String::new(),
            },
        }
    };
    let current = calls.iter().map(of_call);
    let is_current =
        |one: &HookStatus| calls.iter().any(|call| call.hook.name == one.name && call.event == one.event);
    let listens = |one: &HookStatus| {
        object.spec.hooks.iter().any(|hook| hook.name == one.name && hook.on.contains(&one.event))
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

/// When a call that has failed is to be made again; at once, if it was never made.
fn next_try(one: &HookStatus) -> Option<Timestamp> {
    let last = one.last_attempt.as_ref()?.0;
    let doublings = u32::try_from(one.attempts.saturating_sub(1)).unwrap_or_default().min(16);
    let pause = SignedDuration::from_secs((1_i64 << doublings).min(LONGEST_PAUSE));
    Some(last.checked_add(pause).unwrap_or(last))
}

/// Takes note of what came of a try.
pub(super) fn note(one: &mut HookStatus, result: Result<u16, String>, now: Timestamp) {
    one.attempts = one.attempts.saturating_add(1);
    one.last_attempt = Some(Time(now));
    (one.state, one.message) = match result {
        Ok(code) => (HookState::Delivered, format!("it answered {code}")),
        Err(why) if one.attempts >= tries(one.event) => {
            (HookState::Failed, format!("given up after {} tries: {why}", one.attempts))
        }
        Err(why) => (HookState::Pending, why),
    };
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
        return Verdict::is_true(HOOKS_DELIVERED, reasons::NO_HOOKS, "no hooks are declared");
    }
    let told = |state| {
        let of_state = known.iter().filter(move |one: &&HookStatus| one.state == state);
        let words: Vec<_> = of_state.map(words).collect();
        words.join("; ")
    };
    let (failed, pending) = (told(HookState::Failed), told(HookState::Pending));
    if !failed.is_empty() {
        let message = format!("{failed}. A change of the spec has it tried again");
        Verdict::is_false(HOOKS_DELIVERED, reasons::HOOK_FAILED, message)
    } else if !pending.is_empty() {
        Verdict::is_false(HOOKS_DELIVERED, reasons::HOOK_PENDING, pending)
    } else {
        let delivered = known.len();
        Verdict::is_true(HOOKS_DELIVERED, reasons::DELIVERED, format!("{delivered} calls were taken"))
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{api::NamespacePlusStatus, testing::object};

    fn plus(on: &[&str]) -> NamespacePlus {
        object(json!({ "hooks": [{ "name": "chat", "on": on, "url": "https://chat.example.com/" }] }))
    }

    fn happened(event: HookEvent, occasion: &str) -> Happened {
        Happened { event, occasion: occasion.to_owned() }
    }

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn one(object: &NamespacePlus, what: &[Happened]) -> HookStatus {
        known(object, &calls(object, what), &[]).remove(0)
    }

    fn with(mut object: NamespacePlus, hooks: Vec<HookStatus>) -> NamespacePlus {
        let observed_generation = object.metadata.generation;
        object.status =
            Some(NamespacePlusStatus { observed_generation, hooks, ..NamespacePlusStatus::default() });
        object
    }

    #[test]
    fn a_hook_is_called_for_what_it_listens_to_and_once_for_each_namespace() {
        let object = plus(&["Created", "Ready"]);
        let first = calls(&object, &[happened(HookEvent::Created, "1"), happened(HookEvent::Deleted, "")]);
        assert_eq!(first.len(), 1);
        let again = calls(&object, &[happened(HookEvent::Created, "1")]);
        assert_eq!(first[0].id, again[0].id);
        let another = calls(&object, &[happened(HookEvent::Created, "2")]);
        assert_ne!(first[0].id, another[0].id);
    }

    #[test]
    fn a_call_that_was_taken_is_not_due_again() {
        let what = [happened(HookEvent::Created, "1")];
        let object = plus(&["Created"]);
        let mut call = one(&object, &what);
        assert!(is_due(&call, seconds(0)));
        note(&mut call, Ok(204), seconds(10));
        let object = with(object, vec![call.clone()]);
        assert_eq!(known(&object, &calls(&object, &what), &[]), [call.clone()]);
        assert!(!is_due(&call, seconds(10_000)) && is_settled(&[call]));
    }

    #[test]
    fn what_was_noted_goes_before_a_status_that_is_behind() {
        let what = [happened(HookEvent::Created, "1")];
        let object = with(plus(&["Created"]), vec![one(&plus(&["Created"]), &what)]);
        let mut noted = one(&object, &what);
        note(&mut noted, Ok(200), seconds(1));
        assert_eq!(known(&object, &calls(&object, &what), &[noted.clone()]), [noted]);
    }

    #[test]
    fn pauses_grow_until_it_is_given_up() {
        let object = plus(&["Created"]);
        let mut call = one(&object, &[happened(HookEvent::Created, "1")]);
        let mut pauses = Vec::new();
        while call.state == HookState::Pending {
            note(&mut call, Err("it answered 503".into()), seconds(0));
            pauses.extend(wait(&[call.clone()], seconds(0)).map(|wait| wait.as_secs()));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(call.message, "given up after 12 tries: it answered 503");
        let mut last =
            HookStatus { event: HookEvent::Deleted, attempts: 4, state: HookState::Pending, ..call };
        note(&mut last, Err("no".into()), seconds(0));
        assert_eq!(last.state, HookState::Failed);
    }

    #[test]
    fn a_new_spec_gives_what_was_given_up_another_chance_and_calls_nothing_twice() {
        let what = [happened(HookEvent::Created, "1"), happened(HookEvent::Ready, "1")];
        let mut object = plus(&["Created", "Ready"]);
        object.metadata.generation = Some(1);
        let mut both = known(&object, &calls(&object, &what), &[]);
        note(&mut both[0], Ok(200), seconds(0));
        both[1].state = HookState::Failed;
        let mut object = with(object, both.clone());
        assert_eq!(known(&object, &calls(&object, &what), &[]), both);
        object.metadata.generation = Some(2);
        let renewed = known(&object, &calls(&object, &what), &[]);
        assert_eq!((renewed[0].state, renewed[1].state), (HookState::Delivered, HookState::Pending));
        assert_eq!(renewed[1].attempts, 0);
    }

    #[test]
    fn what_is_known_stays_while_the_hook_listens() {
        let what = [happened(HookEvent::Ready, "1")];
        let mut object = plus(&["Ready"]);
        let mut call = one(&object, &what);
        note(&mut call, Ok(200), seconds(0));
        object = with(object, vec![call.clone()]);
        assert_eq!(known(&object, &[], &[]), [call]);
        object.spec.hooks.clear();
        assert_eq!(known(&object, &[], &[]), []);
    }

    #[test]
    fn the_condition_says_what_is_wrong() {
        let what = [happened(HookEvent::Created, "1")];
        let object = plus(&["Created"]);
        let mut call = one(&object, &what);
        let said = |call: &HookStatus| {
            let verdict = verdict(&object, std::slice::from_ref(call));
            (verdict.reason, verdict.message)
        };
        assert_eq!(said(&call), ("HookPending", "chat is to be called for Created".into()));
        note(&mut call, Err("it answered 500".into()), seconds(0));
        assert_eq!(said(&call), ("HookPending", "chat, called for Created: it answered 500".into()));
        call.state = HookState::Failed;
        assert_eq!(said(&call).0, "HookFailed");
        note(&mut call, Ok(200), seconds(0));
        assert_eq!(said(&call), ("Delivered", "1 calls were taken".into()));
    }
}
