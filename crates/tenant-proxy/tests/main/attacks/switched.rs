//! Attacks with requests for another protocol, such as those of exec.

use super::{
    BY_ALICE, PATIENCE, Setup,
    client::{Response, lines, read_until},
    start,
};
use crate::upstream::{Answer, Recorded};
use tokio::time::timeout;

const EXEC: &str = "/api/v1/namespaces/oil-dev/pods/x/exec?command=sh";
/// Bytes that could be taken for a request of their own.
const HIDDEN: &str =
    "GET /api/v1/namespaces HTTP/1.1\r\nHost: proxy.example\r\nAuthorization: Bearer alice\r\n\r\n";

fn upgrade(headers: &[&str]) -> Vec<u8> {
    let headers = lines(headers);
    format!(
        "GET {EXEC} HTTP/1.1\r\nHost: proxy.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{headers}\r\n"
    )
    .into_bytes()
}

fn switched(protocol: &str) -> String {
    format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{protocol}\r\n")
}

/// Waits until the request for another protocol meets a condition.
async fn wait_for(setup: &Setup, is_met: impl Fn(&Recorded) -> bool) {
    let is_met = |requests: &Vec<Recorded>| requests.iter().any(|one| one.is_upgrade() && is_met(one));
    timeout(PATIENCE, setup.upstream.wait_for(is_met)).await.unwrap();
}

/// Waits until all connections for another protocol have ended.
async fn wait_for_ends(setup: &Setup) {
    let have_ended =
        |all: &Vec<Recorded>| all.iter().filter(|one| one.is_upgrade()).all(|one| one.is_complete);
    timeout(PATIENCE, setup.upstream.wait_for(have_ended)).await.unwrap();
}

#[tokio::test]
async fn bytes_behind_an_upgrade_wait_for_its_answer_and_stay_bytes() {
    let setup = start().await;
    setup.upstream.answer_upgrades(None);
    let mut stream = setup.connect().await;
    setup.write(&mut stream, &[&upgrade(&[BY_ALICE])[..], b"early"].concat()).await;
    wait_for(&setup, |_| true).await;
    setup.upstream.answer_upgrades(Some(&switched("Upgrade: WebSocket\r\n")));
    let head = read_until(&mut stream, |bytes| bytes.ends_with(b"\r\n\r\n")).await;
    assert_eq!(Response::parse(&head).status, 101);
    wait_for(&setup, |request| request.body == b"early").await;
    setup.write(&mut stream, HIDDEN.as_bytes()).await;
    let all = ["early", HIDDEN].concat();
    wait_for(&setup, |request| request.body == all.as_bytes()).await;
    drop(stream);
    wait_for(&setup, |request| request.is_complete).await;
    let received = setup.assert_only_received("bytes behind an upgrade", EXEC, "alice");
    assert_eq!(received.bytes_before_answer, 0);
}

#[tokio::test]
async fn upgrade_that_is_refused_ends_both_connections() {
    let setup = start().await;
    for (answer, status, body) in [
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", 403, "no"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", 200, "no"),
        (
            "HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nno",
            200,
            "no",
        ),
        ("HTTP/1.1 500 Error\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 500, ""),
        ("HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n", 426, ""),
    ] {
        setup.upstream.answer_upgrades(Some(answer));
        let bytes = [upgrade(&[BY_ALICE]), HIDDEN.into()].concat();
        let response = Response::parse(&setup.exchange(&bytes).await);
        assert_eq!((response.status, response.text().as_str()), (status, body), "{answer}");
        assert!(!response.head.contains("upgrade:"), "{answer}: {response:?}");
        wait_for_ends(&setup).await;
        assert_eq!(setup.assert_only_received(answer, EXEC, "alice").body, b"", "{answer}");
    }
}

#[tokio::test]
async fn switch_to_another_protocol_than_asked_for_is_an_error() {
    let setup = start().await;
    for protocol in ["Upgrade: h2c\r\n", "Upgrade: SPDY/3.1\r\n", "Upgrade: websocket, h2c\r\n", ""] {
        setup.upstream.answer_upgrades(Some(&switched(protocol)));
        let bytes = [upgrade(&[BY_ALICE]), HIDDEN.into()].concat();
        let response = Response::parse(&setup.exchange(&bytes).await);
        assert_eq!(response.status, 502, "{protocol:?}: {response:?}");
        wait_for_ends(&setup).await;
        assert_eq!(setup.assert_only_received(protocol, EXEC, "alice").body, b"", "{protocol:?}");
    }
}

#[tokio::test]
async fn switch_that_nobody_asked_for_is_an_error() {
    let setup = start().await;
    setup.upstream.override_answers(|request| (request.target == "/odd").then(|| Answer::error(101, "")));
    let response = setup.send_by_alice("GET /odd").await;
    assert_eq!(response.status, 502, "{response:?}");
    setup.assert_only_received("an unasked 101", "/odd", "alice");
    setup.assert_serves().await;
}

#[tokio::test]
async fn refused_upgrades_send_nothing_and_end_the_connection() {
    let setup = start().await;
    for (attack, status, headers) in [
        ("no token", 401, &[][..]),
        ("a second protocol", 400, &[BY_ALICE, "Upgrade: h2c"]),
        ("Connection that names the identity", 400, &[BY_ALICE, "Connection: Authorization"]),
    ] {
        let bytes = [upgrade(headers), HIDDEN.into()].concat();
        let response = Response::parse(&setup.exchange(&bytes).await);
        assert_eq!(response.status, status, "{attack}: {response:?}");
        setup.assert_nothing_received(attack);
    }
}

#[tokio::test]
async fn protocols_of_other_versions_are_the_users_own_request() {
    let setup = start().await;
    let settings = "HTTP2-Settings: AAMAAABkAAQAAP__";
    let bytes = format!(
        "GET /api/v1/namespaces HTTP/1.1\r\nHost: proxy.example\r\n{BY_ALICE}\r\n\
         Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n{settings}\r\n\r\n"
    );
    let response = Response::parse(&setup.exchange(bytes.as_bytes()).await);
    assert_eq!((response.status, response.text().as_str()), (403, "refused"));
    let received = setup.assert_only_received("h2c", "/api/v1/namespaces", "alice");
    assert!(received.all("http2-settings").is_empty(), "{received:?}");
}

#[tokio::test]
async fn token_in_a_protocol_is_the_only_credential() {
    let setup = start().await;
    let protocols =
        "Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.YWxpY2U";
    let response = Response::parse(&setup.exchange(&upgrade(&[protocols])).await);
    assert_eq!(response.status, 403);
    let received = setup.received();
    // That there is one credential, which the client has sent, is checked for each request.
    assert!(received.len() == 1 && received[0].all("authorization").is_empty(), "{received:?}");
}
