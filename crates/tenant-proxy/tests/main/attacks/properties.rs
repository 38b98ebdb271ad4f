//! The guarantees of the proxy hold for whatever is sent, and nothing ends it.

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use serde_json::Value;

use super::{Setup, client::http1, is_view, start};
use crate::upstream::Answer;

/// A request that follows on the same connection, and also is a body that is long enough.
fn follower() -> Vec<u8> {
    http1("GET /follower", &["Authorization: Bearer alice"])
}

fn picked(texts: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(texts).prop_map(|text| text.as_bytes().to_vec())
}

/// Bytes, but for digits: they could be the length of a body that never comes.
fn bytes(length: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("a digit", |byte| !byte.is_ascii_digit());
    prop::collection::vec(byte, 0..length)
}

fn method() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => Just(b"GET".to_vec()),
        2 => picked(&["HEAD", "POST", "DELETE", "get", "OPTIONS", "CONNECT", "TRACE", "PRI"]),
        1 => bytes(6),
    ]
}

fn target() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => picked(&[
            "/", "//", "api", "v1", "namespaces", "/api/v1/namespaces", "..", ".", ";", "%2f", "%2e", "%",
            "/apis/capsule.clastix.io/v1beta2/tenants", "oil", "gas", "?", "&", "=", "#", "labelSelector=",
            "labelSelector", "watch=", "true", "continue=", "limit=1", " in (", "%28", ",", "!", "+", "*",
            "https://proxy.example", "https://elsewhere.example",
        ]),
        1 => bytes(4),
    ];
    let free = prop::collection::vec(part.clone(), 0..6).prop_map(|parts| parts.concat());
    let of_view = (
        picked(&["/api/v1/namespaces", "/apis/capsule.clastix.io/v1beta2/tenants"]),
        prop::collection::vec(part, 0..4),
    )
        .prop_map(|(path, parts)| [path, b"?".to_vec(), parts.concat()].concat());
    prop_oneof![free, of_view]
}

fn header() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        8 => picked(&[
            "Authorization", "Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Connection",
            "Content-Length", "Transfer-Encoding", "Host", "Upgrade", "X-Remote-User", "X-Forwarded-For",
            "Expect", "TE", "Trailer", "Sec-WebSocket-Protocol", "Accept", "Proxy-Connection", "Keep-Alive",
        ]),
        1 => bytes(8),
    ];
    let value = prop_oneof![
        8 => picked(&[
            "Bearer alice", "Bearer bob", "Bearer admin", "Bearer ", "Basic x", "alice", "bob", "", "0", "5",
            "chunked", "close", "keep-alive", "Upgrade", "websocket", "h2c", "Authorization", "trailers",
            "Impersonate-User", "100-continue", "base64url.bearer.authorization.k8s.io.YQ", "proxy.example",
            "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml", "system:masters",
        ]),
        1 => bytes(8),
    ];
    (name, picked(&[": ", ":", " : ", ":\t"]), value)
        .prop_map(|(name, colon, value)| [name, colon, value].concat())
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let usual = prop_oneof![
        4 => Just(vec![b"Host: proxy.example".to_vec(), b"Authorization: Bearer alice".to_vec()]),
        1 => Just(vec![b"Host: proxy.example".to_vec()]),
        1 => Just(Vec::new()),
    ];
    let end = prop_oneof![8 => Just(b"\r\n".to_vec()), 1 => picked(&["\n", "\r\n "])];
    (method(), target(), usual, prop::collection::vec(header(), 0..4), end).prop_map(
        |(method, target, usual, headers, end)| {
            let first = [method, b" ".to_vec(), target, b" HTTP/1.1".to_vec()].concat();
            let lines: Vec<_> = [first].into_iter().chain(usual).chain(headers).collect();
            [lines.join(&end[..]), b"\r\n\r\n".to_vec()].concat()
        },
    )
}

async fn attack(setup: &Setup, request: Vec<u8>) {
    let answer = setup.exchange(&[request, follower()].concat()).await;
    setup.received();
    assert!(answer.starts_with(b"HTTP/1."), "no answer: {}", String::from_utf8_lossy(&answer));
}

#[test]
fn guarantees_hold_for_all_requests() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let setup = runtime.block_on(start());
    // Some requests are watches of alice, whose connections would never end.
    setup.upstream.override_answers(|request| {
        let is_watch = is_view(request) && request.target.contains("watch=true");
        is_watch.then(|| Answer::json(200, &Value::Null))
    });
    let config = Config { failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&request(), |request| {
        runtime.block_on(attack(&setup, request));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    runtime.block_on(setup.assert_serves());
}
