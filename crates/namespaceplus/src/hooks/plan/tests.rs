use serde_json::json;

use super::*;
use crate::{api::NamespacePlusStatus, testing::object};

fn namespace_plus(on: &[&str]) -> NamespacePlus {
    object(json!({ "hooks": [{ "name": "chat", "on": on, "url": "https://chat.example.com/" }] }))
}

fn occurrences(event: HookEvent, occurrence_id: &str) -> Occurrence {
    Occurrence { event, occurrence_id: occurrence_id.to_owned() }
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn one(object: &NamespacePlus, what: &[Occurrence]) -> HookStatus {
    statuses_for(object, &calls(object, what)).remove(0)
}

fn with(mut object: NamespacePlus, hooks: Vec<HookStatus>) -> NamespacePlus {
    let observed_generation = object.metadata.generation;
    object.status =
        Some(NamespacePlusStatus { observed_generation, hooks, ..NamespacePlusStatus::default() });
    object
}

#[test]
fn calls_hook_once_per_subscribed_event_and_namespace() {
    let object = namespace_plus(&["Created", "Ready"]);
    let first = calls(&object, &[occurrences(HookEvent::Created, "1"), occurrences(HookEvent::Deleted, "")]);
    assert_eq!(first.len(), 1);
    let again = calls(&object, &[occurrences(HookEvent::Created, "1")]);
    assert_eq!(first[0].id, again[0].id);
    let another = calls(&object, &[occurrences(HookEvent::Created, "2")]);
    assert_ne!(first[0].id, another[0].id);
}

#[test]
fn delivered_call_is_not_due_again() {
    let what = [occurrences(HookEvent::Created, "1")];
    let object = namespace_plus(&["Created"]);
    let mut call = one(&object, &what);
    assert!(is_due(&call, seconds(0)));
    record_result(&mut call, Ok(204), seconds(10));
    let object = with(object, vec![call.clone()]);
    assert_eq!(statuses_for(&object, &calls(&object, &what)), [call.clone()]);
    assert!(!is_due(&call, seconds(10_000)) && none_pending(&[call]));
}

/// Returns a started call.
fn started(object: &NamespacePlus, what: &[Occurrence], at: i64) -> HookStatus {
    let mut call = one(object, what);
    start(&mut call, &object.spec.hooks[0], seconds(at));
    call
}

#[test]
fn started_call_is_not_due_before_its_deadline() {
    let what = [occurrences(HookEvent::Created, "1")];
    let mut object = namespace_plus(&["Created"]);
    object.spec.hooks[0].timeout_seconds = 30;
    let call = started(&object, &what, 100);
    assert_eq!((call.state, call.attempts), (HookState::Pending, 1));
    let object = with(object, vec![call.clone()]);
    // Another manager, which has only the status.
    let known = statuses_for(&object, &calls(&object, &what));
    assert_eq!(known, [call]);
    assert!(!is_due(&known[0], seconds(136)) && is_due(&known[0], seconds(137)));
    assert_eq!(next_attempt_in(&known, seconds(107)), Some(Duration::from_secs(30)));
    assert!(!none_pending(&known));
}

#[test]
fn response_ends_started_call() {
    let object = namespace_plus(&["Created"]);
    let mut call = started(&object, &[occurrences(HookEvent::Created, "1")], 100);
    record_result(&mut call, Err("the receiver answered 500".into()), seconds(101));
    assert_eq!((call.attempts, &call.attempt_deadline), (1, &None));
    assert!(!is_due(&call, seconds(101)) && is_due(&call, seconds(102)));
}

#[test]
fn backoff_grows_until_call_fails() {
    let object = namespace_plus(&["Created"]);
    let mut call = one(&object, &[occurrences(HookEvent::Created, "1")]);
    let mut pauses = Vec::new();
    while call.state == HookState::Pending {
        start(&mut call, &object.spec.hooks[0], seconds(0));
        record_result(&mut call, Err("the receiver answered 503".into()), seconds(0));
        pauses.extend(next_attempt_in(&[call.clone()], seconds(0)).map(|wait| wait.as_secs()));
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(call.message, "gave up after 12 attempts: the receiver answered 503");
    let mut last = HookStatus { event: HookEvent::Deleted, attempts: 5, state: HookState::Pending, ..call };
    record_result(&mut last, Err("no".into()), seconds(0));
    assert_eq!(last.state, HookState::Failed);
}

#[test]
fn new_generation_retries_only_failed_calls() {
    let what = [occurrences(HookEvent::Created, "1"), occurrences(HookEvent::Ready, "1")];
    let mut object = namespace_plus(&["Created", "Ready"]);
    object.metadata.generation = Some(1);
    let mut both = statuses_for(&object, &calls(&object, &what));
    record_result(&mut both[0], Ok(200), seconds(0));
    both[1].state = HookState::Failed;
    let mut object = with(object, both.clone());
    assert_eq!(statuses_for(&object, &calls(&object, &what)), both);
    object.metadata.generation = Some(2);
    let renewed = statuses_for(&object, &calls(&object, &what));
    assert_eq!((renewed[0].state, renewed[1].state), (HookState::Delivered, HookState::Pending));
    assert_eq!(renewed[1].attempts, 0);
}

#[test]
fn keeps_status_while_hook_subscribes() {
    let what = [occurrences(HookEvent::Ready, "1")];
    let mut object = namespace_plus(&["Ready"]);
    let mut call = one(&object, &what);
    record_result(&mut call, Ok(200), seconds(0));
    object = with(object, vec![call.clone()]);
    assert_eq!(current_statuses(&object), [call]);
    object.spec.hooks.clear();
    assert_eq!(current_statuses(&object), []);
}

#[test]
fn condition_reports_pending_and_failed_calls() {
    let what = [occurrences(HookEvent::Created, "1")];
    let object = namespace_plus(&["Created"]);
    let mut call = one(&object, &what);
    let previous = |call: &HookStatus| {
        let condition = hooks_delivered(&object, std::slice::from_ref(call));
        (condition.reason, condition.message)
    };
    assert_eq!(previous(&call), ("HookPending", "hook chat is due for event Created".into()));
    start(&mut call, &object.spec.hooks[0], seconds(0));
    assert_eq!(previous(&call), ("HookPending", "hook chat, event Created: no response yet".into()));
    record_result(&mut call, Err("the receiver answered 500".into()), seconds(0));
    assert_eq!(
        previous(&call),
        ("HookPending", "hook chat, event Created: the receiver answered 500".into())
    );
    call.state = HookState::Failed;
    assert_eq!(previous(&call).0, "HookFailed");
    record_result(&mut call, Ok(200), seconds(0));
    assert_eq!(previous(&call), ("Delivered", "1 calls were accepted".into()));
}

#[test]
fn accepts_unquoted_on() {
    let bare = object(
        json!({ "hooks": [{ "name": "chat", "true": ["Ready"], "url": "https://chat.example.com/" }] }),
    );
    assert_eq!(calls(&bare, &[occurrences(HookEvent::Ready, "1")]).len(), 1);
    assert_eq!(calls(&bare, &[occurrences(HookEvent::Created, "1")]).len(), 0);
}
