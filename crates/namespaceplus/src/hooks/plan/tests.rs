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
    known_of(object, &calls(object, what)).remove(0)
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
    assert_eq!(known_of(&object, &calls(&object, &what)), [call.clone()]);
    assert!(!is_due(&call, seconds(10_000)) && is_settled(&[call]));
}

/// Returns a started call.
fn begun(object: &NamespacePlus, what: &[Happened], at: i64) -> HookStatus {
    let mut call = one(object, what);
    begin(&mut call, &object.spec.hooks[0], seconds(at));
    call
}

#[test]
fn a_call_that_is_under_way_is_not_made_by_anybody_until_it_must_have_ended() {
    let what = [happened(HookEvent::Created, "1")];
    let mut object = plus(&["Created"]);
    object.spec.hooks[0].timeout_seconds = 30;
    let call = begun(&object, &what, 100);
    assert_eq!((call.state, call.attempts), (HookState::Pending, 1));
    let object = with(object, vec![call.clone()]);
    // Another manager, which has only the status.
    let known = known_of(&object, &calls(&object, &what));
    assert_eq!(known, [call]);
    assert!(!is_due(&known[0], seconds(136)) && is_due(&known[0], seconds(137)));
    assert_eq!(wait(&known, seconds(107)), Some(Duration::from_secs(30)));
    assert!(!is_settled(&known));
}

#[test]
fn a_call_that_was_answered_is_under_way_no_more() {
    let object = plus(&["Created"]);
    let mut call = begun(&object, &[happened(HookEvent::Created, "1")], 100);
    note(&mut call, Err("the receiver answered 500".into()), seconds(101));
    assert_eq!((call.attempts, &call.under_way_until), (1, &None));
    assert!(!is_due(&call, seconds(101)) && is_due(&call, seconds(102)));
}

#[test]
fn pauses_grow_until_it_is_given_up() {
    let object = plus(&["Created"]);
    let mut call = one(&object, &[happened(HookEvent::Created, "1")]);
    let mut pauses = Vec::new();
    while call.state == HookState::Pending {
        begin(&mut call, &object.spec.hooks[0], seconds(0));
        note(&mut call, Err("the receiver answered 503".into()), seconds(0));
        pauses.extend(wait(&[call.clone()], seconds(0)).map(|wait| wait.as_secs()));
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(call.message, "gave up after 12 attempts: the receiver answered 503");
    let mut last = HookStatus { event: HookEvent::Deleted, attempts: 5, state: HookState::Pending, ..call };
    note(&mut last, Err("no".into()), seconds(0));
    assert_eq!(last.state, HookState::Failed);
}

#[test]
fn a_new_spec_gives_what_was_given_up_another_chance_and_calls_nothing_twice() {
    let what = [happened(HookEvent::Created, "1"), happened(HookEvent::Ready, "1")];
    let mut object = plus(&["Created", "Ready"]);
    object.metadata.generation = Some(1);
    let mut both = known_of(&object, &calls(&object, &what));
    note(&mut both[0], Ok(200), seconds(0));
    both[1].state = HookState::Failed;
    let mut object = with(object, both.clone());
    assert_eq!(known_of(&object, &calls(&object, &what)), both);
    object.metadata.generation = Some(2);
    let renewed = known_of(&object, &calls(&object, &what));
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
    assert_eq!(known(&object), [call]);
    object.spec.hooks.clear();
    assert_eq!(known(&object), []);
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
    assert_eq!(said(&call), ("HookPending", "hook chat is due for event Created".into()));
    begin(&mut call, &object.spec.hooks[0], seconds(0));
    assert_eq!(said(&call), ("HookPending", "hook chat, event Created: no response yet".into()));
    note(&mut call, Err("the receiver answered 500".into()), seconds(0));
    assert_eq!(said(&call), ("HookPending", "hook chat, event Created: the receiver answered 500".into()));
    call.state = HookState::Failed;
    assert_eq!(said(&call).0, "HookFailed");
    note(&mut call, Ok(200), seconds(0));
    assert_eq!(said(&call), ("Delivered", "1 calls were accepted".into()));
}

#[test]
fn a_bare_on_which_yaml_reads_as_true_is_as_good_as_on() {
    let bare = object(
        json!({ "hooks": [{ "name": "chat", "true": ["Ready"], "url": "https://chat.example.com/" }] }),
    );
    assert_eq!(calls(&bare, &[happened(HookEvent::Ready, "1")]).len(), 1);
    assert_eq!(calls(&bare, &[happened(HookEvent::Created, "1")]).len(), 0);
}
