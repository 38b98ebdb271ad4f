use serde_json::json;

use super::*;

fn asked(verb: &'static str, name: &str) -> Asked {
    Asked { verb, resource: "pods".to_owned(), namespace: "n".to_owned(), name: name.to_owned() }
}

fn told(event: &str, version: &str) -> Told {
    let (namespace, name) = ("n".to_owned(), "r000001".to_owned());
    Told { event: event.to_owned(), namespace, name, version: version.to_owned() }
}

#[test]
fn the_nth_write_of_a_key_meets_its_fault_once_and_only_in_its_run() {
    let mut rules = Rules::default();
    let token = Token::nth(1);
    let key = asked("create", "r000001-pod-0").key();
    rules.strike(RequestRule { token, which: Which::Nth(key, 2), fault: Fault::Lost });
    assert_eq!(rules.meet(&asked("create", "r000002-pod-0")), None);
    assert_eq!(rules.meet(&asked("create", "r000001-pod-0")), None);
    assert_eq!(rules.meet(&asked("delete", "r000001-pod-0")), None);
    assert_eq!(rules.meet(&asked("create", "r000001-pod-1")), Some(Fault::Lost));
    assert_eq!(rules.meet(&asked("create", "r000001-pod-2")), None);
    assert!(!rules.heal(token), "it has come");
}

#[test]
fn a_lasting_fault_is_met_until_it_heals() {
    let mut rules = Rules::default();
    let token = Token::nth(1);
    let which = Which::Writes { verb: "delete".to_owned(), resource: "pods".to_owned() };
    let fault = Fault::Answer { code: 403, retry_after: None };
    rules.strike(RequestRule { token, which, fault: fault.clone() });
    for _ in 0..3 {
        assert_eq!(rules.meet(&asked("delete", "r000001-pod-0")), Some(fault.clone()));
    }
    assert_eq!(rules.meet(&asked("create", "r000001-pod-0")), None);
    rules.heal(token);
    assert_eq!(rules.meet(&asked("delete", "r000001-pod-0")), None);
}

#[test]
fn frames_are_counted_by_what_they_tell() {
    let mut rules = Rules::default();
    let token = Token::nth(1);
    let (resource, event) = (Some("pods".to_owned()), Some("MODIFIED".to_owned()));
    rules.twist(FrameRule { token, resource, event, nth: Some(2), twist: Twist::Twice });
    assert_eq!(rules.tell("pods", &told("ADDED", "1")), None);
    assert_eq!(rules.tell("pods", &told("MODIFIED", "2")), None);
    assert_eq!(rules.tell("podsets", &told("MODIFIED", "3")), None);
    assert_eq!(rules.tell("pods", &told("MODIFIED", "4")), Some(Twist::Twice));
    assert_eq!(rules.notices(token).len(), 3);
}

#[test]
fn a_write_that_leaves_the_version_changed_nothing() {
    let mut rules = Rules::default();
    let answer = |version: &str| json!({ "metadata": { "resourceVersion": version } }).to_string();
    let update = asked("update", "r000001");
    rules.tell("pods", &told("ADDED", "5"));
    for (code, version) in [(200, "5"), (200, "6"), (409, "")] {
        let before = rules.known(&update);
        rules.answered(&update, before.as_ref(), b"", code, answer(version).as_bytes());
    }
    let changed: Vec<_> = rules.writes(Token::nth(1)).iter().map(|record| record.changed).collect();
    assert_eq!(changed, [false, true, false]);
}

#[test]
fn a_deletion_without_a_uid_is_noticed() {
    let mut rules = Rules::default();
    let careful = json!({ "preconditions": { "uid": "u" } }).to_string();
    rules.answered(&asked("delete", "r000001"), None, careful.as_bytes(), 200, b"{}");
    rules.answered(&asked("delete", "r000001"), None, b"{}", 200, b"{}");
    let blind: Vec<_> = rules.writes(Token::nth(1)).iter().map(|record| record.deletes_blindly).collect();
    assert_eq!(blind, [false, true]);
}
