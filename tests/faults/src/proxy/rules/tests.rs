use serde_json::json;

use super::*;

fn info(verb: &'static str, name: &str) -> RequestInfo {
    RequestInfo { verb, resource: "pods".to_owned(), namespace: "n".to_owned(), name: name.to_owned() }
}

fn frame(event: &str, version: &str) -> FrameInfo {
    let (namespace, name) = ("n".to_owned(), "r000001".to_owned());
    FrameInfo { event: event.to_owned(), namespace, name, version: version.to_owned() }
}

#[test]
fn faults_only_the_nth_write_of_a_key_in_its_run() {
    let mut rules = Rules::default();
    let token = Token::nth(1);
    let key = info("create", "r000001-pod-0").key();
    rules.add_request_fault(RequestRule { token, which: Which::Nth(key, 2), fault: Fault::Lost });
    assert_eq!(rules.fault_for_request(&info("create", "r000002-pod-0")), None);
    assert_eq!(rules.fault_for_request(&info("create", "r000001-pod-0")), None);
    assert_eq!(rules.fault_for_request(&info("delete", "r000001-pod-0")), None);
    assert_eq!(rules.fault_for_request(&info("create", "r000001-pod-1")), Some(Fault::Lost));
    assert_eq!(rules.fault_for_request(&info("create", "r000001-pod-2")), None);
    assert!(!rules.clear_faults(token), "the fault was triggered");
}

#[test]
fn lasting_fault_applies_until_cleared() {
    let mut rules = Rules::default();
    let token = Token::nth(1);
    let which = Which::Writes { verb: "delete".to_owned(), resource: "pods".to_owned() };
    let fault = Fault::Answer { code: 403, retry_after: None };
    rules.add_request_fault(RequestRule { token, which, fault: fault.clone() });
    for _ in 0..3 {
        assert_eq!(rules.fault_for_request(&info("delete", "r000001-pod-0")), Some(fault.clone()));
    }
    assert_eq!(rules.fault_for_request(&info("create", "r000001-pod-0")), None);
    rules.clear_faults(token);
    assert_eq!(rules.fault_for_request(&info("delete", "r000001-pod-0")), None);
}

#[test]
fn counts_frames_by_event_type() {
    let mut rules = Rules::default();
    let token = Token::nth(1);
    let (resource, event) = (Some("pods".to_owned()), Some("MODIFIED".to_owned()));
    rules.add_frame_fault(FrameRule { token, resource, event, nth: Some(2), fault: FrameFault::Duplicate });
    assert_eq!(rules.fault_for_frame("pods", &frame("ADDED", "1")), None);
    assert_eq!(rules.fault_for_frame("pods", &frame("MODIFIED", "2")), None);
    assert_eq!(rules.fault_for_frame("podsets", &frame("MODIFIED", "3")), None);
    assert_eq!(rules.fault_for_frame("pods", &frame("MODIFIED", "4")), Some(FrameFault::Duplicate));
    assert_eq!(rules.frame_counts(token).len(), 3);
}

#[test]
fn write_without_new_version_is_ineffective() {
    let mut rules = Rules::default();
    let answer = |version: &str| json!({ "metadata": { "resourceVersion": version } }).to_string();
    let update = info("update", "r000001");
    rules.fault_for_frame("pods", &frame("ADDED", "5"));
    for (code, version) in [(200, "5"), (200, "6"), (409, "")] {
        let before = rules.known(&update);
        rules.answered(&update, before.as_ref(), b"", code, answer(version).as_bytes());
    }
    let changed: Vec<_> = rules.writes(Token::nth(1)).iter().map(|record| record.changed).collect();
    assert_eq!(changed, [false, true, false]);
}

#[test]
fn detects_delete_without_uid() {
    let mut rules = Rules::default();
    let careful = json!({ "preconditions": { "uid": "u" } }).to_string();
    rules.answered(&info("delete", "r000001"), None, careful.as_bytes(), 200, b"{}");
    rules.answered(&info("delete", "r000001"), None, b"{}", 200, b"{}");
    let blind: Vec<_> = rules.writes(Token::nth(1)).iter().map(|record| record.lacks_uid).collect();
    assert_eq!(blind, [false, true]);
}
