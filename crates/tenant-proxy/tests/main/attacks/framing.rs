//! Attacks with the framing of HTTP/1.1: where one request ends and the next one begins.

use super::{
    BY_ALICE,
    client::{http1, lines},
    start,
};

/// A request that hides behind another one.
const HIDDEN: &str =
    "GET /hidden HTTP/1.1\r\nHost: proxy.example\r\nAuthorization: Bearer alice\r\nConnection: close\r\n\r\n";

/// Returns a request of alice with these headers, and what follows.
fn post(headers: &[&str], body: &str) -> Vec<u8> {
    let headers = lines(headers);
    format!("POST /api/v1/x HTTP/1.1\r\nHost: proxy.example\r\n{BY_ALICE}\r\n{headers}\r\n{body}")
        .into_bytes()
}

#[tokio::test]
async fn length_and_chunks_are_read_as_chunks_and_end_the_connection() {
    let setup = start().await;
    for headers in [
        ["Content-Length: 4", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 4"],
        ["Transfer-Encoding: CHUNKED", "Content-Length: 1000"],
    ] {
        let bytes = post(&headers, &format!("5\r\nhello\r\n0\r\n\r\n{HIDDEN}"));
        setup.exchange(&bytes).await;
        let received = setup.assert_only_received(headers[0], "/api/v1/x", "alice");
        assert_eq!((received.body.as_slice(), received.all("content-length").len()), (&b"hello"[..], 0));
    }
}

#[tokio::test]
async fn malformed_heads_are_refused() {
    let setup = start().await;
    for headers in [
        &["Content-Length: 4", "Content-Length: 5"][..],
        &["Content-Length: 4, 5"],
        &["Content-Length: 4, 4"],
        &["Content-Length: +4"],
        &["Content-Length: -4"],
        &["Content-Length: 0x4"],
        &["Content-Length: 4 4"],
        &["Content-Length: 99999999999999999999"],
        &["Transfer-Encoding: chunked, identity"],
        &["Transfer-Encoding: identity"],
        &["Transfer-Encoding: gzip, chunked"],
        &["Transfer-Encoding: xchunked"],
        &["Transfer-Encoding: \"chunked\""],
        &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        &["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        &["Transfer-Encoding : chunked"],
        &["X: a", " Impersonate-User: bob"],
        &["X: a", "\tfolded"],
        &["Authorization : Bearer bob"],
        &["X"],
        &[": x"],
        &["X: a\0b"],
        &["X: a\rb"],
        &["X: a\x0bb"],
        &["X: a\x7fb"],
        &["X: a\tb"],
        &["X\0: a"],
        &["X(a): b"],
        &["Upgrade: websocket", "Upgrade: SPDY/3.1"],
    ] {
        let response = setup.exchange(&post(headers, "")).await;
        assert!(response.starts_with(b"HTTP/1.1 400"), "{headers:?}: {}", String::from_utf8_lossy(&response));
        setup.assert_nothing_received(&headers.join(" | "));
    }
    for line in [
        "GET /version HTTP/1.0",
        "GET /version HTTP/0.9",
        "GET /version HTTP/1.2",
        "GET /version HTTP/2.0",
        "GET /version http/1.1",
        "GET /version",
        "GET\t/version HTTP/1.1",
        " GET /version HTTP/1.1",
        "G(T /version HTTP/1.1",
        "/version HTTP/1.1",
    ] {
        let bytes = format!("{line}\r\nHost: proxy.example\r\n{BY_ALICE}\r\n\r\n");
        let response = setup.exchange(bytes.as_bytes()).await;
        // The answer to HTTP/1.0 has that version too.
        let status = response.get(8..12).unwrap_or_default();
        assert_eq!(status, b" 400", "{line}: {}", String::from_utf8_lossy(&response));
        setup.assert_nothing_received(line);
    }
    setup.assert_serves().await;
}

#[tokio::test]
async fn equal_lengths_are_one_length() {
    let setup = start().await;
    let lengths = ["Content-Length: 4", "Content-Length: 4", "Connection: close"];
    setup.exchange(&post(&lengths, &format!("body{HIDDEN}"))).await;
    let received = setup.assert_only_received("two equal lengths", "/api/v1/x", "alice");
    assert_eq!(received.body, b"body");
}

#[tokio::test]
async fn extensions_of_chunks_and_trailers_do_not_go_on() {
    let setup = start().await;
    let chunked = ["Transfer-Encoding: chunked", "Trailer: Authorization", "Connection: close"];
    let trailers = "Authorization: Bearer admin\r\nImpersonate-User: bob\r\nContent-Length: 1\r\n";
    let body = format!("5;a=\"b\"\r\nhello\r\n0;c\r\n{trailers}\r\n{HIDDEN}");
    setup.exchange(&post(&chunked, &body)).await;
    // That there are no trailers is checked for each request.
    let received = setup.assert_only_received("trailers", "/api/v1/x", "alice");
    assert_eq!(received.body, b"hello");
}

#[tokio::test]
async fn broken_chunks_end_the_request_and_the_connection() {
    let setup = start().await;
    for size in ["-5", "+5", "0x5", "ffffffffffffffffff", "", " ", "5\n", "5\r", "g", "5 5", "\u{ff15}"] {
        let chunks = format!("{size}\r\nhello\r\n0\r\n\r\n{HIDDEN}");
        setup.exchange(&post(&["Transfer-Encoding: chunked"], &chunks)).await;
        let received = setup.received();
        let is_harmless =
            received.iter().all(|request| request.target == "/api/v1/x" && !request.is_complete);
        assert!(is_harmless && received.len() <= 1, "{size:?}: {received:?}");
    }
    let long = ["Content-Length: 10", "Connection: close"];
    let mut stream = setup.connect().await;
    setup.write(&mut stream, &post(&long, "short")).await;
    drop(stream);
    setup.assert_serves().await;
}

#[tokio::test]
async fn requests_of_one_connection_keep_their_own_credentials() {
    let setup = start().await;
    let of = |path: &str, token: &str, close: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: proxy.example\r\nAuthorization: Bearer {token}\r\n{close}\r\n")
    };
    let none = "GET /none HTTP/1.1\r\nHost: proxy.example\r\n\r\n";
    let all = [
        of("/one", "alice", ""),
        none.to_owned(),
        of("/two", "bob", ""),
        of("/three", "alice", "Connection: close\r\n"),
        HIDDEN.to_owned(),
    ];
    let answers = setup.exchange(all.concat().as_bytes()).await;
    assert_eq!(String::from_utf8_lossy(&answers).matches("HTTP/1.1 ").count(), 4);
    let received = setup.received();
    let found: Vec<_> = received.iter().map(|request| request.target.as_str()).collect();
    assert_eq!(found, ["/one", "/two", "/three"]);
    let tokens = ["alice", "bob", "alice"];
    assert!(received.iter().zip(tokens).all(|(request, token)| request.is_by(token)), "{received:?}");
}

#[tokio::test]
async fn lines_that_end_without_carriage_return_hide_nothing() {
    let setup = start().await;
    let bytes = http1("GET /version", &[BY_ALICE, "X: a\nImpersonate-User: bob"]);
    setup.exchange(&bytes).await;
    for request in setup.received() {
        assert_eq!(request.all("impersonate-user"), [b"bob"], "{request:?}");
    }
    setup.assert_serves().await;
}
