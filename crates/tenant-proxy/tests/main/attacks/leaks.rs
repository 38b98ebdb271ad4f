//! Attacks that look for what a user must not see in answers and logs.

use serde_json::{Value, json};

use super::{
    BY_ALICE, NAMESPACES, OF_ALICE, REVIEWS, TENANTS,
    logs::{self, SECRET},
    start, start_with,
};
use crate::upstream::{Answer, PROXY_TOKEN};

#[tokio::test]
async fn foreign_and_missing_objects_look_alike() {
    let setup = start().await;
    for kind in [TENANTS, NAMESPACES] {
        setup.upstream.override_answers(move |request| {
            let is_named = request.target.starts_with(NAMESPACES) && request.target != NAMESPACES;
            is_named.then(|| Answer::error(403, "alice cannot get this namespace"))
        });
        let foreign = setup.send_by_alice(&format!("GET {kind}/gas")).await;
        let missing = setup.send_by_alice(&format!("GET {kind}/xyz")).await;
        assert_eq!((foreign.status, foreign.body.len()), (403, missing.body.len()), "{foreign:?}");
        assert_eq!(foreign.text().replace("gas", "xyz"), missing.text());
        let targets: Vec<_> = setup.received().into_iter().filter(|one| one.is_by(PROXY_TOKEN)).collect();
        assert!(targets.is_empty(), "{targets:?}");
    }
    let (own, view) = setup.get_by_alice(&format!("{TENANTS}/oil")).await;
    assert_eq!((own.status, view), (200, Some(format!("{TENANTS}/oil"))));
}

#[tokio::test]
async fn only_exact_names_are_looked_up_in_missing_namespaces() {
    let setup = start_with(&["--not-found-in-missing-namespaces"]).await;
    setup.upstream.override_answers(|request| {
        let is_named = request.target.starts_with(NAMESPACES) && !request.is_by(PROXY_TOKEN);
        is_named.then(|| Answer::error(403, "not allowed"))
    });
    let looked_up = || {
        let received = setup.received().into_iter().filter(|one| one.is_by(PROXY_TOKEN));
        received.map(|one| one.target).collect::<Vec<_>>()
    };
    for path in [
        "x,metadata.name!=y",
        "x%2cy",
        "x&labelSelector=a",
        "%67as-dev",
        "x/../gas-dev",
        "x;y",
        "X",
        "x/secrets",
        "x/secrets/a/status",
        "x?watch=true",
        "x/pods/a?watch",
    ] {
        let response = setup.send_by_alice(&format!("GET {NAMESPACES}/{path}")).await;
        assert_eq!(response.status, 403, "{path}: {response:?}");
        assert_eq!(looked_up(), [""; 0], "{path}");
    }
    for (method, token) in [("POST", "alice"), ("DELETE", "alice"), ("HEAD", "alice"), ("GET", "carol")] {
        let by = format!("Authorization: Bearer {token}");
        let response = setup.send(&format!("{method} {NAMESPACES}/none"), &[&by]).await;
        assert_eq!(response.status, 403, "{method} by {token}: {response:?}");
        assert_eq!(looked_up(), [""; 0], "{method} by {token}");
    }
    for path in ["none", "none/secrets/a"] {
        let response = setup.send_by_alice(&format!("GET {NAMESPACES}/{path}")).await;
        assert_eq!(response.status, 404, "{path}: {response:?}");
        assert_eq!(looked_up(), [format!("{NAMESPACES}?fieldSelector=metadata.name%3Dnone")]);
    }
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn lists_by_name_say_nothing_about_hidden_objects() {
    let setup = start().await;
    let metadata = json!({"resourceVersion": "7", "continue": "Z2Fz", "remainingItemCount": 41});
    let list = json!({"metadata": metadata, "items": [named("gas"), named("oil"), named("gas2")]});
    let row = |name: &str| json!({"cells": [name, "Active"], "object": named(name)});
    let table = json!({"kind": "Table", "metadata": metadata, "rows": [row("gas"), row("oil")]});
    for body in [list, table] {
        setup.upstream.override_answers(move |request| {
            (request.target == TENANTS && request.is_by(PROXY_TOKEN)).then(|| Answer::json(200, &body))
        });
        let (response, _) = setup.get_by_alice(TENANTS).await;
        let text = response.text();
        assert_eq!(response.status, 200, "{text}");
        assert!(text.contains("oil"), "{text}");
        for hidden in ["gas", "Z2Fz", "continue", "remainingItemCount", "41"] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
    }
}

#[tokio::test]
async fn watch_by_name_has_the_visible_events() {
    let setup = start().await;
    let event = |kind: &str, object: Value| format!("{}\n", json!({"type": kind, "object": object}));
    let bookmark = event("BOOKMARK", json!({"metadata": {"resourceVersion": "9"}}));
    let shown = [event("ADDED", named("oil")), bookmark, event("DELETED", named("oil"))].concat();
    let hidden = ["ADDED", "MODIFIED", "DELETED"].map(|kind| event(kind, named("gas"))).concat();
    let body = [hidden.clone(), shown.clone(), hidden].concat().into_bytes();
    let answer = Answer { body, ..Answer::json(200, &Value::Null) };
    setup.upstream.override_answers(move |request| {
        (request.target.contains("watch=true") && request.is_by(PROXY_TOKEN)).then(|| answer.clone())
    });
    let (response, view) = setup.get_by_alice(&format!("{TENANTS}?watch=true")).await;
    assert_eq!(view, Some(format!("{TENANTS}?watch=true&timeoutSeconds=600")));
    assert_eq!(response.text(), shown);
}

#[tokio::test]
async fn lists_that_cannot_be_read_are_not_shown() {
    let setup = start().await;
    for body in [
        "gas",
        "\"gas\"",
        "[\"gas\"]",
        "{\"items\": \"gas\"}",
        "{\"items\": [\"gas\"]}",
        "{\"items\": [{\"metadata\": \"gas\"}]}",
        "{\"items\": [{\"metadata\": {\"name\": {\"gas\": 1}}}]}",
        "{\"metadata\": \"gas\", \"items\": []}",
        "{\"rows\": [{\"object\": \"gas\"}]}",
        "{\"items\": [{\"metadata\": {\"name\": \"oil\"}}], \"gas",
        "items:\n- metadata:\n    name: gas\n",
    ] {
        let answer = Answer { body: body.into(), ..Answer::json(200, &Value::Null) };
        setup.upstream.override_answers(move |request| {
            (request.target == TENANTS && request.is_by(PROXY_TOKEN)).then(|| answer.clone())
        });
        let (response, _) = setup.get_by_alice(TENANTS).await;
        assert_eq!(response.status, 503, "{body}: {response:?}");
        assert!(!response.text().contains("gas"), "{body}: {response:?}");
    }
}

#[tokio::test]
async fn lists_by_name_are_asked_for_in_json() {
    let setup = start().await;
    for (accept, expected) in [
        ("application/yaml", "application/json"),
        ("application/vnd.kubernetes.protobuf, */*", "application/json"),
        ("application/cbor", "application/json"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        ("text/html\u{e4}", "application/json"),
    ] {
        let header = format!("Accept: {accept}");
        setup.send(&format!("GET {TENANTS}"), &[BY_ALICE, &header]).await;
        let received = setup.received();
        let view = received.iter().find(|one| one.is_by(PROXY_TOKEN)).unwrap();
        assert_eq!(view.all("accept"), [expected.as_bytes()], "{accept}");
    }
}

#[tokio::test]
async fn refusals_and_identities_are_not_shared() {
    let setup = start().await;
    let of = |token: &str, close: &str| {
        format!("GET {NAMESPACES} HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer {token}\r\n{close}\r\n")
    };
    let all = [
        of("alice", ""),
        of("alice", ""),
        of("bob", ""),
        of("carol", ""),
        of("admin", "Connection: close\r\n"),
    ];
    let answers = setup.exchange(all.concat().as_bytes()).await;
    let answers = String::from_utf8_lossy(&answers).into_owned();
    let bodies: Vec<_> = answers.split("HTTP/1.1 ").skip(1).collect();
    let has = |index: usize, name: &str| bodies[index].contains(name);
    assert_eq!(bodies.len(), 5, "{answers}");
    for alice in [0, 1] {
        assert!(has(alice, "oil-dev") && !has(alice, "gas-dev"), "{answers}");
    }
    assert!(has(2, "gas-dev") && !has(2, "oil-dev"), "{answers}");
    assert!(bodies[3].starts_with("403") && !has(3, "-dev"), "{answers}");
    assert!(has(4, "gas-dev") && has(4, "oil-dev"), "{answers}");
    let received = setup.received();
    let as_user =
        |token: &str| received.iter().filter(|one| one.is_by(token) && one.target == NAMESPACES).count();
    assert_eq!(
        ["alice", "bob", "carol", "admin"].map(as_user),
        [1; 4],
        "a refusal is known for its own user"
    );
}

#[tokio::test]
async fn tokens_are_not_in_logs_and_answers() {
    let setup = start().await;
    setup.upstream.override_answers(|request| match request.target.as_str() {
        _ if !request.is_by(SECRET) => None,
        REVIEWS => Some(Answer::json(201, &json!({"status": {"userInfo": {"username": "alice"}}}))),
        _ => Some(Answer::error(403, "no")),
    });
    let token = format!("Authorization: Bearer {SECRET}");
    let response = setup.send(&format!("GET {NAMESPACES}"), &[&token]).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(setup.received().iter().any(|one| one.target.ends_with(OF_ALICE)));
    let protocol = format!("Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.{SECRET}");
    for headers in [
        &[token.as_str(), &token][..],
        &[&token, "Connection: Authorization"],
        &[&token, "Impersonate-User: bob", "Impersonate-User: x"],
        &[&format!("Authorization: Basic {SECRET}")],
        &[&format!("Authorization: Bearer {SECRET} {SECRET}")],
        &[&format!("Authorization: Bearer {SECRET}\0")],
        &[&protocol],
        &[&protocol, "Upgrade: websocket", "Connection: Upgrade"],
        &[&token, "Upgrade: websocket", "Connection: Upgrade"],
    ] {
        let response = setup.send(&format!("GET {NAMESPACES}?x=y"), headers).await;
        assert!(
            !response.head.contains(SECRET) && !response.text().contains(SECRET),
            "{headers:?}: {response:?}"
        );
    }
    assert!(logs::number_of_lines() > 0);
    assert_eq!(logs::lines_with_tokens(), Vec::<String>::new());
}
