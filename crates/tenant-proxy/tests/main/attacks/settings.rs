//! Attacks on views that settings of the proxy grant.

use serde_json::json;

use super::{BY_ALICE, STORAGE_CLASSES, Setup, is_view, start};
use crate::upstream::Answer;

const BY_ERIN: &str = "Authorization: Bearer erin";
const BY_BOB: &str = "Authorization: Bearer bob";

/// Sends a GET. Returns the status, the body, and the targets that the proxy asked for with its own token.
async fn get(setup: &Setup, token: &str, target: &str) -> (u16, String, Vec<String>) {
    let response = setup.send(&format!("GET {target}"), &[token]).await;
    let views = setup.received().into_iter().filter(is_view).map(|view| view.target).collect();
    (response.status, response.text(), views)
}

#[tokio::test]
async fn classes_are_those_that_the_tenant_allows() {
    let setup = start().await;
    let (status, text, views) = get(&setup, BY_ALICE, STORAGE_CLASSES).await;
    assert_eq!((status, views), (200, vec![STORAGE_CLASSES.to_owned()]));
    assert!(text.contains("fast") && text.contains("cheap") && !text.contains("slow"), "{text}");
    // The labels decide about what the name does not.
    for (name, expected) in [("fast", 200), ("cheap", 200), ("slow", 403), ("missing", 403)] {
        let target = format!("{STORAGE_CLASSES}/{name}");
        let (status, text, views) = get(&setup, BY_ALICE, &target).await;
        assert_eq!((status, views), (expected, vec![target]), "{text}");
    }
    let (slow, missing) = (get(&setup, BY_ALICE, &format!("{STORAGE_CLASSES}/slow")).await, {
        get(&setup, BY_ALICE, &format!("{STORAGE_CLASSES}/missing")).await
    });
    assert_eq!(slow.1, missing.1, "a hidden class looks like a missing one");
    let (status, _, views) = get(&setup, BY_BOB, STORAGE_CLASSES).await;
    assert_eq!((status, views), (403, Vec::new()), "an owner without the setting");
    let (status, _, views) = get(&setup, BY_ALICE, "/apis/storage.k8s.io/v1/storageclasses/fast/x").await;
    assert_eq!((status, views), (403, Vec::new()));
}

#[tokio::test]
async fn rule_for_everything_shows_nothing_in_namespaces() {
    let setup = start().await;
    let (status, text, views) = get(&setup, BY_ERIN, "/api/v1/nodes?labelSelector=a").await;
    let of_rule = "/api/v1/nodes?labelSelector=tier%20in%20%28gold%29%2Ca".to_owned();
    assert_eq!((status, views), (200, vec!["/api/v1".to_owned(), of_rule]), "{text}");
    for target in ["/api/v1/secrets", "/api/v1/secrets?labelSelector=tier=gold", "/api/v1/secrets?watch=true"]
    {
        let (status, _, views) = get(&setup, BY_ERIN, target).await;
        assert_eq!((status, views), (403, Vec::new()), "{target}");
    }
    // Namespaces and Tenants are for those who own them.
    for target in ["/api/v1/namespaces", "/apis/capsule.clastix.io/v1beta2/tenants"] {
        let (status, _, views) = get(&setup, BY_ERIN, target).await;
        assert_eq!((status, views), (403, Vec::new()), "{target}");
    }
    let (status, _, views) = get(&setup, BY_ALICE, "/api/v1/nodes").await;
    assert_eq!((status, views), (403, Vec::new()), "the rule is for another user");
}

#[tokio::test]
async fn kind_that_the_proxy_may_not_list_is_refused_as_before() {
    let setup = start().await;
    let (_, _, _) = get(&setup, BY_ERIN, "/api/v1/nodes").await;
    setup.upstream.override_answers(|request| {
        let is_view = request.target.starts_with("/api/v1/nodes");
        is_view.then(|| Answer::error(403, &format!("refused to {:?}", request.all("authorization").len())))
    });
    let (status, text, views) = get(&setup, BY_ERIN, "/api/v1/nodes").await;
    assert_eq!((status, views.len()), (403, 1), "{text}");
    setup.upstream.override_answers(|request| {
        (request.target == "/api/v1").then(|| Answer::error(500, "no discovery"))
    });
    let (status, text, _) = get(&setup, BY_ERIN, "/api/v1/persistentvolumes").await;
    assert_ne!(status, 500, "{text}");
}

#[tokio::test]
async fn reviews_of_users_go_on_as_they_came() {
    let setup = start().await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = |verb: &str, resource: &str, allowed: bool| {
        json!({"kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "version": "v1", "resource": resource}},
            "status": {"allowed": allowed, "reason": "as the API server says"}})
    };
    for (token, verb, resource, expected) in [
        (BY_ALICE, "list", "namespaces", true),
        (BY_ALICE, "watch", "namespaces", true),
        (BY_ALICE, "create", "namespaces", false),
        (BY_ALICE, "list", "nodes", false),
        (BY_ERIN, "list", "namespaces", false),
        (BY_ERIN, "list", "nodes", true),
        (BY_ERIN, "list", "secrets", false),
    ] {
        let answer = Answer::json(201, &review(verb, resource, false));
        setup.upstream.override_answers(move |request| (request.target == path).then(|| answer.clone()));
        let response = setup.send(&format!("POST {path}"), &[token]).await;
        assert_eq!(response.status, 201);
        let text = response.text();
        assert_eq!(text.contains("\"allowed\":true"), expected, "{token} {verb} {resource}: {text}");
        setup.received();
    }
    // What is no review in JSON, or is allowed already, comes back byte for byte.
    for body in ["{\"status\":{\"allowed\":true , \"x\":1}}", "gas", "{}", "[]", "7"] {
        let answer = Answer { body: body.as_bytes().to_vec(), ..Answer::json(201, &json!({})) };
        setup.upstream.override_answers(move |request| (request.target == path).then(|| answer.clone()));
        assert_eq!(setup.send(&format!("POST {path}"), &[BY_ALICE]).await.text(), body);
        setup.received();
    }
    // A user decides how long a review is. A long one is not kept in memory.
    for length in [60_000, 70_000, 3 << 20] {
        let mut long = review("get", "namespaces", false);
        long["spec"]["resourceAttributes"]["name"] = json!("x".repeat(length));
        let answer = Answer::json(201, &long);
        setup.upstream.override_answers(move |request| (request.target == path).then(|| answer.clone()));
        assert_eq!(setup.send(&format!("POST {path}"), &[BY_ALICE]).await.text(), long.to_string());
        setup.received();
    }
}

#[tokio::test]
async fn refusal_without_a_view_is_not_remembered() {
    let setup = start().await;
    setup.upstream.override_answers(|request| {
        let status = if request.is_by("erin") { 403 } else { 404 };
        request.target.starts_with("/apis/x.example/").then(|| Answer::error(status, "refused"))
    });
    // The rule of erin is for all kinds, so the API server says which of them are cluster-scoped.
    let (status, _, views) = get(&setup, BY_ERIN, "/apis/x.example/v1/widgets").await;
    assert_eq!((status, views), (403, vec!["/apis/x.example/v1".to_owned()]));
    // A view that was not shown is not remembered: the user is asked first again.
    let response = setup.send("GET /apis/x.example/v1/widgets", &[BY_ERIN]).await;
    let received = setup.received();
    assert_eq!((response.status, received[0].is_by("erin")), (403, true), "{received:?}");
    assert_eq!(received.iter().filter(|one| one.target.starts_with("/apis/x")).count(), 1, "{received:?}");
}
