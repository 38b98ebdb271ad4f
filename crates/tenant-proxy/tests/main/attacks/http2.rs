//! Attacks with the framing and the fields of HTTP/2.

use serde_json::Value;

use super::{
    Setup,
    frames::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Http2, Outcome, RST_STREAM, SETTINGS, block,
        frame, get, request,
    },
    start,
};

use crate::upstream::Answer;

const BY_ALICE: &str = "Bearer alice";
/// Identifier of the initial window of streams.
const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];

async fn outcome(setup: &Setup, fields: &[(&str, &str)]) -> Outcome {
    let mut connection = Http2::open(setup, &[]).await;
    connection.write(setup, &request(1, fields)).await;
    connection.outcome(1).await
}

#[tokio::test]
async fn malformed_fields_are_refused() {
    let setup = start().await;
    let usual = get("/version", BY_ALICE);
    let without = |name: &str| usual.into_iter().filter(|(one, _)| *one != name).collect::<Vec<_>>();
    let with = |name: &'static str, value: &'static str| [&usual[..], &[(name, value)]].concat();
    let first = |name: &'static str, value: &'static str| [&[(name, value)], &usual[..]].concat();
    let other = |name: &'static str, value: &'static str| [vec![(name, value)], without(name)].concat();
    let reset = [Outcome::Reset, Outcome::Closed];
    let refused = [Outcome::Status(400), Outcome::Reset];
    for (attack, expected, fields) in [
        ("no method", reset, without(":method")),
        ("no scheme", reset, without(":scheme")),
        ("no path", refused, without(":path")),
        ("an empty path", reset, other(":path", "")),
        ("two paths", reset, first(":path", "/api")),
        ("two methods", reset, first(":method", "POST")),
        ("two authorities", reset, first(":authority", "elsewhere.example")),
        ("a path without slash", refused, other(":path", "api/v1/namespaces")),
        ("a space in the path", reset, other(":path", "/ver sion")),
        ("a line break in the path", reset, other(":path", "/a HTTP/1.1\r\nX: y")),
        ("a status", reset, first(":status", "200")),
        ("an unknown field of the protocol", reset, first(":evil", "x")),
        ("a path after the headers", reset, with(":path", "/api")),
        ("a method with a space", reset, other(":method", "GE T")),
        (
            "a user in the authority",
            refused,
            [other(":authority", "alice@proxy.example"), vec![("host", "proxy.example")]].concat(),
        ),
        ("a broken authority", reset, other(":authority", "a b")),
        ("another host", refused, with("host", "elsewhere.example")),
        ("an upper case name", reset, with("Impersonate-User", "bob")),
        ("connection", reset, with("connection", "authorization")),
        ("keep-alive", reset, with("keep-alive", "1")),
        ("proxy-connection", reset, with("proxy-connection", "authorization")),
        ("transfer-encoding", reset, with("transfer-encoding", "chunked")),
        ("upgrade", reset, with("upgrade", "websocket")),
        ("te", reset, with("te", "gzip")),
        ("a line break in a value", reset, with("x", "a\r\nimpersonate-user: bob")),
        ("a zero byte in a value", reset, with("x", "a\0b")),
        ("a tab in a value", refused, with("x", "a\tb")),
        ("a line break in a name", reset, with("x\r\nimpersonate-user", "bob")),
        ("an empty name", reset, with("", "x")),
        ("two tokens", refused, with("authorization", "Bearer bob")),
        (
            "two users",
            refused,
            [with("impersonate-user", "bob"), vec![("impersonate-user", "alice")]].concat(),
        ),
        ("a length without body", reset, with("content-length", "5")),
        ("two lengths", refused, [with("content-length", "0"), vec![("content-length", "5")]].concat()),
        ("CONNECT", refused, vec![(":method", "CONNECT"), (":authority", "proxy.example:443"), usual[4]]),
        (
            "CONNECT to a websocket",
            refused,
            [vec![(":method", "CONNECT"), (":protocol", "websocket")], without(":method")].concat(),
        ),
        ("TRACE", refused, other(":method", "TRACE")),
    ] {
        let outcome = outcome(&setup, &fields).await;
        assert!(expected.contains(&outcome), "{attack}: {outcome:?}");
        setup.assert_nothing_received(attack);
    }
    setup.assert_serves().await;
}

#[tokio::test]
async fn other_fields_are_the_users_own_request() {
    let setup = start().await;
    for (attack, target, fields) in [
        (
            "a scheme without TLS",
            "/version",
            [(":scheme", "http"), (":authority", "proxy.example"), (":path", "/version")],
        ),
        (
            "a host instead of an authority",
            "/version",
            [(":scheme", "https"), (":path", "/version"), ("host", "proxy.example")],
        ),
        (
            "a fragment",
            "/version",
            [(":scheme", "https"), (":authority", "proxy.example"), (":path", "/version#/../x")],
        ),
        (
            "two slashes",
            "//api/v1/namespaces",
            [(":scheme", "https"), (":authority", "proxy.example"), (":path", "//api/v1/namespaces")],
        ),
        (
            "a target like another host's",
            "//elsewhere.example/api",
            [(":scheme", "https"), (":authority", "proxy.example"), (":path", "//elsewhere.example/api")],
        ),
        ("the asterisk form", "*", [(":scheme", "https"), (":authority", "proxy.example"), (":path", "*")]),
    ] {
        let fields = [&[(":method", "GET")][..], &fields, &[("authorization", BY_ALICE)]].concat();
        assert_eq!(outcome(&setup, &fields).await, Outcome::Status(200), "{attack}");
        setup.assert_only_received(attack, target, "alice");
    }
    let fields = get("/api/v1/namespaces", "Bearer carol");
    assert_eq!(outcome(&setup, &fields).await, Outcome::Status(403));
}

#[tokio::test]
async fn trailers_do_not_go_on() {
    let setup = start().await;
    let mut fields = get("/x", BY_ALICE);
    fields[0].1 = "POST";
    let trailers = block(&[("authorization", "Bearer admin"), ("impersonate-user", "bob")]);
    let all = [
        frame(HEADERS, END_HEADERS, 1, &block(&fields)),
        frame(DATA, 0, 1, b"body"),
        frame(HEADERS, END_STREAM | END_HEADERS, 1, &trailers),
    ];
    let mut connection = Http2::open(&setup, &[]).await;
    connection.write(&setup, &all.concat()).await;
    assert_eq!(connection.outcome(1).await, Outcome::Status(200));
    // That there are no trailers is checked for each request.
    assert_eq!(setup.assert_only_received("trailers", "/x", "alice").body, b"body");
}

#[tokio::test]
async fn streams_that_are_reset_at_once_end_the_connection() {
    const STREAMS: u32 = 1000;
    let setup = start().await;
    let cancel = 8_u32.to_be_bytes();
    let mut connection = Http2::open(&setup, &[]).await;
    let one = |number| {
        let stream = 2 * number + 1;
        [request(stream, &get("/reset", BY_ALICE)), frame(RST_STREAM, 0, stream, &cancel)].concat()
    };
    let all: Vec<_> = (0..STREAMS).flat_map(one).collect();
    connection.write(&setup, &all).await;
    while connection.next().await.is_some() {}
    let received = setup.received().len();
    assert!(received < 200, "{received} requests went on");
    setup.assert_serves().await;
}

#[tokio::test]
async fn headers_without_end_end_the_connection() {
    let setup = start().await;
    for (attack, payload) in [
        ("headers", block(&[("x", "y")])),
        ("long headers", block(&[("x", &"y".repeat(16_000))])),
        ("nothing", Vec::new()),
    ] {
        let mut connection = Http2::open(&setup, &[]).await;
        let first = frame(HEADERS, END_STREAM, 1, &block(&get("/flood", BY_ALICE)));
        let rest = frame(CONTINUATION, 0, 1, &payload).repeat(500);
        connection.write(&setup, &[first, rest].concat()).await;
        assert_eq!(connection.outcome(1).await, Outcome::Closed, "{attack}");
        setup.assert_nothing_received(attack);
        setup.assert_serves().await;
    }
}

#[tokio::test]
async fn client_that_reads_nothing_does_not_stop_others() {
    /// As many as share one connection to the API server with the request after them.
    const STREAMS: u32 = 79;
    let setup = start().await;
    let large = Answer { body: vec![b'x'; 1 << 20], ..Answer::json(200, &Value::Null) };
    setup.upstream.override_answers(move |request| (request.target == "/large").then(|| large.clone()));
    let window = |size: u32| [&INITIAL_WINDOW_SIZE[..], &size.to_be_bytes()].concat();
    let mut connection = Http2::open(&setup, &window(0)).await;
    let one = |number| request(2 * number + 1, &get("/large", BY_ALICE));
    connection.write(&setup, &(0..STREAMS).flat_map(one).collect::<Vec<_>>()).await;
    let mut heads = 0;
    while heads < STREAMS {
        let frame = connection.next().await.unwrap();
        assert_ne!(frame.kind, DATA);
        heads += u32::from(frame.kind == HEADERS);
    }
    setup.assert_serves().await;
    connection.write(&setup, &frame(SETTINGS, 0, 0, &window(65_535))).await;
    while connection.next().await.unwrap().kind != DATA {}
}
