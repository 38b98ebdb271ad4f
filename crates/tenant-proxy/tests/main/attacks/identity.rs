//! Attacks on who a user is.

use serde_json::json;

use super::{BY_ALICE, NAMESPACES, OF_ALICE, REVIEWS, Setup, client::Response, is_view, start};
use crate::upstream::{Answer, PROXY_TOKEN};

const GET: &str = "GET /api/v1/namespaces";
const BY_ADMIN: &str = "Authorization: Bearer admin";

/// Sends a list of namespaces. Returns the response, and the view that the API server was asked for.
async fn list(setup: &Setup, headers: &[&str]) -> (Response, Option<String>) {
    let response = setup.send(GET, headers).await;
    let views: Vec<_> = setup.received().into_iter().filter(is_view).map(|view| view.target).collect();
    assert!(views.len() <= 1, "{views:?}");
    (response, views.into_iter().next())
}

/// Returns the target of the view of a Tenant's namespaces.
fn of(tenant: &str) -> String {
    format!("{NAMESPACES}?{}", OF_ALICE.replace("oil", tenant))
}

#[tokio::test]
async fn requests_without_exactly_one_token_are_refused() {
    let setup = start().await;
    let protocol = "Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.YWxpY2U";
    let two_protocols = "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YWxpY2U, \
                         base64url.bearer.authorization.k8s.io.Ym9i";
    let other_characters = protocol.replace("v5", "\u{e4}");
    let upgrade = "Upgrade: websocket";
    for (attack, status, headers) in [
        ("no token", 401, &[][..]),
        ("empty bearer", 401, &["Authorization: Bearer"]),
        ("empty bearer with a space", 401, &["Authorization: Bearer "]),
        ("bearer twice", 401, &["Authorization: Bearer Bearer alice"]),
        ("two tokens in a header", 401, &["Authorization: Bearer alice, Bearer bob"]),
        ("basic", 401, &["Authorization: Basic YWxpY2U6eA=="]),
        ("two headers", 400, &[BY_ALICE, "Authorization: Bearer bob"]),
        ("the same header twice", 400, &[BY_ALICE, BY_ALICE]),
        ("an empty second header", 400, &[BY_ALICE, "Authorization:"]),
        ("token with a space", 401, &["Authorization: Bearer al ice"]),
        ("token with a zero byte", 400, &["Authorization: Bearer al\0ice"]),
        ("token with a line feed", 400, &["Authorization: Bearer al\nice"]),
        ("token with a carriage return", 400, &["Authorization: Bearer al\rice"]),
        ("token with a tab", 400, &["Authorization: Bearer al\tice"]),
        ("token with other characters", 401, &["Authorization: Bearer al\u{ed}ce"]),
        ("token in a protocol without upgrade", 401, &[protocol]),
        ("token in a header and in a protocol", 401, &[BY_ALICE, protocol, upgrade]),
        ("token in a header and behind other characters", 401, &[BY_ALICE, &other_characters, upgrade]),
        ("two tokens in protocols", 401, &[two_protocols, upgrade]),
        ("two tokens in two headers of protocols", 401, &[protocol, protocol, upgrade]),
    ] {
        let response = setup.send(GET, headers).await;
        assert_eq!(response.status, status, "{attack}: {response:?}");
        setup.assert_nothing_received(attack);
    }
    setup.assert_serves().await;
}

#[tokio::test]
async fn connection_cannot_remove_the_identity() {
    let setup = start().await;
    let bob = "Impersonate-User: bob";
    for named in [
        "Authorization",
        "authorization",
        "Impersonate-User, X",
        "close,\tIMPERSONATE-USER",
        "x,Impersonate-Extra-scopes",
        "Sec-WebSocket-Protocol",
    ] {
        let response = setup.send(GET, &[BY_ALICE, bob, &format!("Connection: {named}")]).await;
        assert_eq!(response.status, 400, "{named}: {response:?}");
        setup.assert_nothing_received(named);
    }
    for line in [
        "Proxy-Connection: Authorization",
        "Keep-Alive: Authorization, Impersonate-User",
        "Connection: X-Authorization, Authorization-X",
    ] {
        setup.send("GET /version", &[BY_ADMIN, bob, line]).await;
        let received = setup.assert_only_received(line, "/version", "admin");
        assert_eq!(received.all("impersonate-user"), [b"bob"], "{line}");
    }
}

#[tokio::test]
async fn headers_of_trusted_proxies_do_not_go_on() {
    let setup = start().await;
    let lines = [
        BY_ALICE,
        "X-Remote-User: admin",
        "x-remote-group: system:masters",
        "X-Remote-Extra-Scopes: x",
        "X-Remote-Uid: 1",
        "X-Forwarded-For: 10.0.0.1",
        "X-Forwarded-Client-Cert: Subject=admin",
        "X-Forwarded-User: admin",
        "Forwarded: for=10.0.0.1",
        "Proxy-Authorization: Bearer admin",
    ];
    assert_eq!(setup.send("GET /version", &lines).await.status, 200);
    let received = setup.assert_only_received("headers of proxies", "/version", "alice");
    assert_eq!(received.headers.len(), 2, "{received:?}");
    assert_eq!(list(&setup, &lines).await.1, Some(of("oil")));
}

#[tokio::test]
async fn impersonation_without_the_right_has_no_view() {
    let setup = start().await;
    // The identity of alice is known from now on.
    assert_eq!(list(&setup, &[BY_ALICE]).await.1, Some(of("oil")));
    for (attack, status, lines) in [
        ("another user", 403, &["Impersonate-User: bob"][..]),
        ("mixed case", 403, &["iMPERSONATE-uSER: bob"]),
        ("a group of administrators", 403, &["Impersonate-User: alice", "Impersonate-Group: system:masters"]),
        ("a group alone", 400, &["Impersonate-Group: system:masters"]),
        ("a UID alone", 400, &["Impersonate-Uid: 1"]),
        ("an extra alone", 400, &["Impersonate-Extra-scopes: x"]),
        ("an unknown header", 400, &["Impersonate-Else: x"]),
        ("two users", 400, &["Impersonate-User: alice", "Impersonate-User: bob"]),
        ("two UIDs", 400, &["Impersonate-User: bob", "Impersonate-Uid: 1", "Impersonate-Uid: 2"]),
    ] {
        let headers = [&[BY_ALICE], lines].concat();
        for time in ["first", "second"] {
            let (response, view) = list(&setup, &headers).await;
            assert_eq!((response.status, view), (status, None), "{attack}, {time}");
        }
    }
    assert_eq!(list(&setup, &[BY_ALICE, "impersonate_user: bob"]).await.1, Some(of("oil")));
    assert_eq!(
        list(&setup, &[BY_ALICE, "Impersonate-User:"]).await.1,
        Some(of("oil")),
        "nobody is no impersonation"
    );
}

#[tokio::test]
async fn impersonation_with_the_right_goes_on_in_full() {
    let setup = start().await;
    let lines = [
        "Impersonate-User: bob",
        "Impersonate-Group: a",
        "Impersonate-Group: b",
        "Impersonate-Extra-scopes: x",
    ];
    let response = setup.send(GET, &[&[BY_ADMIN], &lines[..]].concat()).await;
    assert_eq!(response.status, 200);
    let received = setup.received();
    let [as_user, review, view] = received.as_slice() else { panic!("{received:?}") };
    for request in [as_user, review] {
        assert!(request.is_by("admin"), "{request:?}");
        assert_eq!(request.all("impersonate-user"), [b"bob"]);
        assert_eq!(request.all("impersonate-group"), [b"a", b"b"]);
        assert_eq!(request.all("impersonate-extra-scopes"), [b"x"]);
    }
    assert_eq!(Some(view.target.clone()), Some(of("gas")));
    assert!(!response.text().contains("oil"), "{response:?}");
}

#[tokio::test]
async fn credentials_that_look_alike_are_asked_for_each() {
    let setup = start().await;
    let all = [
        &["Impersonate-User: bob"][..],
        &["Impersonate-User: bob", "Impersonate-Group: ab"],
        &["Impersonate-User: bob", "Impersonate-Group: a", "Impersonate-Group: b"],
        &["Impersonate-User: bob", "Impersonate-Group: b", "Impersonate-Group: a"],
        &["Impersonate-User: bob", "Impersonate-Group: a, b"],
        &["Impersonate-User: bobI", "Impersonate-Group: a"],
        &["Impersonate-User: bob", "Impersonate-Extra-a: bc"],
        &["Impersonate-User: bob", "Impersonate-Extra-ab: c"],
        &["Impersonate-User: alice"],
    ];
    for headers in all {
        setup.send(GET, &[&[BY_ADMIN], headers].concat()).await;
        let reviews = setup.received().iter().filter(|request| request.target == REVIEWS).count();
        assert_eq!(reviews, 1, "{headers:?}");
    }
}

#[tokio::test]
async fn review_that_fails_or_names_nobody_has_no_view() {
    let setup = start().await;
    let named = |name: serde_json::Value| json!({"status": {"userInfo": {"username": name, "groups": ["projectcapsule.dev"]}}});
    let html = Answer {
        headers: vec![("content-type", "text/html".to_owned())],
        body: b"<p>alice</p>".to_vec(),
        ..Answer::error(201, "")
    };
    let alice = Answer::json(200, &named(json!("alice")));
    let long = Answer { body: vec![b' '; 2 << 20], ..alice.clone() };
    for (attack, answer) in [
        ("500", Answer::error(500, "alice")),
        ("429", Answer::error(429, "alice")),
        ("403", Answer::error(403, "alice")),
        ("302", Answer { status: 302, ..alice.clone() }),
        ("200", alice),
        ("HTML", html),
        ("nothing", Answer { body: Vec::new(), ..Answer::error(201, "") }),
        ("too much", Answer { status: 201, ..long }),
        ("no status", Answer::json(201, &json!({}))),
        ("no user", Answer::json(201, &json!({"status": {"userInfo": {}}}))),
        ("an empty name", Answer::json(201, &named(json!("")))),
        ("a number as name", Answer::json(201, &named(json!(1)))),
        ("anonymous", Answer::json(201, &named(json!("system:anonymous")))),
    ] {
        setup.upstream.override_answers(move |request| (request.target == REVIEWS).then(|| answer.clone()));
        let (response, view) = list(&setup, &[BY_ALICE]).await;
        assert_eq!((response.status, view), (403, None), "{attack}: {response:?}");
    }
    setup.upstream.override_answers(|_| None);
    assert_eq!(list(&setup, &[BY_ALICE]).await.1, Some(of("oil")), "failures are not kept");
}

#[tokio::test]
async fn users_get_what_their_own_name_owns() {
    let setup = start().await;
    let impossible =
        format!("{NAMESPACES}?labelSelector=capsule.clastix.io%2Ftenant%2C%21capsule.clastix.io%2Ftenant");
    for (attack, token, status, view) in [
        ("an owner", "bob", 200, Some(of("gas"))),
        ("anonymous", "anonymous", 403, None),
        ("an unknown token", "eve", 401, None),
        ("nobody's user", "carol", 403, None),
        (
            "a ServiceAccount whose name and namespace are those of an owner, swapped",
            "account-of-b",
            403,
            None,
        ),
        ("a user without Tenant", "dan", 200, Some(impossible.clone())),
        ("an owner of a Tenant whose name closes the selector", "mallory", 200, Some(impossible)),
        ("an administrator", "admin", 200, None),
    ] {
        let (response, shown) = list(&setup, &[&format!("Authorization: Bearer {token}")]).await;
        assert_eq!((response.status, shown), (status, view), "{attack}: {response:?}");
    }
}

#[tokio::test]
async fn token_of_the_proxy_is_a_user_like_others() {
    let setup = start().await;
    let token = format!("Authorization: Bearer {PROXY_TOKEN}");
    let response = setup.send(GET, &[&token]).await;
    let received = setup.assert_only_received("the token of the proxy", NAMESPACES, PROXY_TOKEN);
    assert_eq!((response.status, received.all("x-forwarded-for")), (200, vec![&b"127.0.0.1"[..]]));
}
