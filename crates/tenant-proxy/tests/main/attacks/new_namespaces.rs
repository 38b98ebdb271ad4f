//! The creation of a namespace, whose response waits until its owner has rights there.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    ACCESS_REVIEWS, NAMESPACES, PATIENCE, REVIEWS, Setup, advance,
    client::{Response, http1, read_all},
    start,
};
use crate::upstream::{Answer, Recorded};

/// A namespace, with spaces that the proxy would not write.
const CREATED: &str = "{ \"kind\":\"Namespace\",  \"metadata\": {\"name\": \"oil-new\"} }\n";

fn created(body: &str) -> Answer {
    Answer { body: body.into(), ..Answer::json(201, &Value::Null) }
}

fn review(allowed: bool) -> Answer {
    Answer::json(201, &json!({"status": {"allowed": allowed}}))
}

fn reviews(requests: &[Recorded]) -> usize {
    requests.iter().filter(|request| request.target == ACCESS_REVIEWS).count()
}

/// Answers creations with `answer`, and lets users create Secrets from the review with this number on.
fn answer_creations(setup: &Setup, answer: Answer, allowed_from: usize) {
    let upstream = setup.upstream.clone();
    setup.upstream.override_answers(move |request| match request.target.split('?').next() {
        Some(NAMESPACES) if request.method == "POST" => Some(answer.clone()),
        Some(ACCESS_REVIEWS) => Some(review(reviews(&upstream.requests()) >= allowed_from)),
        _ => None,
    });
}

/// Returns a request that creates a namespace.
fn creation(query: &str, token: &str) -> Vec<u8> {
    let by = format!("Authorization: Bearer {token}");
    let head = http1(&format!("POST {NAMESPACES}{query}"), &[&by, "Content-Length: 2"]);
    [&head[..], b"{}"].concat()
}

#[tokio::test]
async fn response_waits_for_the_rights_and_is_unchanged() {
    let setup = start().await;
    answer_creations(&setup, created(CREATED), 3);
    let response = Response::parse(&setup.exchange(&creation("?fieldManager=helm", "alice")).await);
    assert_eq!((response.status, &*response.text()), (201, CREATED));
    let received = setup.received();
    assert!(received.iter().all(|request| request.is_by("alice")), "{received:?}");
    let targets: Vec<_> = received.iter().map(|request| request.target.as_str()).collect();
    let creation = format!("{NAMESPACES}?fieldManager=helm");
    assert_eq!(targets, [&creation, REVIEWS, ACCESS_REVIEWS, ACCESS_REVIEWS, ACCESS_REVIEWS]);
    let asked: Value = serde_json::from_slice(&received[2].body).unwrap();
    let expected = json!({"namespace": "oil-new", "verb": "create", "version": "v1", "resource": "secrets"});
    assert_eq!(asked["spec"]["resourceAttributes"], expected);
}

#[tokio::test]
async fn response_comes_without_rights_after_two_seconds() {
    let setup = start().await;
    answer_creations(&setup, created(CREATED), usize::MAX);
    let mut stream = setup.connect().await;
    setup.write(&mut stream, &creation("", "alice")).await;
    timeout(PATIENCE, setup.upstream.wait_for(|requests| reviews(requests) > 0)).await.unwrap();
    advance(Duration::from_secs(2)).await;
    let response = Response::parse(&read_all(&mut stream).await);
    assert_eq!((response.status, &*response.text()), (201, CREATED));
    setup.received();
}

#[tokio::test]
async fn other_responses_do_not_wait() {
    let setup = start().await;
    let yaml = vec![("content-type", "application/yaml".to_owned())];
    let long = format!("{{\"metadata\": {{\"name\": \"oil-new\"}}, \"x\": \"{}\"}}", "x".repeat(70 << 10));
    for (reason, query, token, answer) in [
        ("of another user", "", "carol", created(CREATED)),
        ("of a user who owns nothing", "", "dan", created(CREATED)),
        ("of a dry run", "?dryRun=All", "alice", created(CREATED)),
        ("a refusal", "", "alice", Answer::error(403, "no")),
        ("in another form", "", "alice", Answer { headers: yaml, ..created(CREATED) }),
        ("a long one", "", "alice", created(&long)),
        ("without a name", "", "alice", created("{}")),
        ("with an invalid name", "", "alice", created("{\"metadata\": {\"name\": \"a/b\"}}")),
        ("unreadable", "", "alice", created("{")),
    ] {
        answer_creations(&setup, answer.clone(), usize::MAX);
        let response = Response::parse(&setup.exchange(&creation(query, token)).await);
        assert_eq!((response.status, &response.body), (answer.status, &answer.body), "{reason}");
        assert_eq!(reviews(&setup.received()), 0, "{reason}");
    }
}
