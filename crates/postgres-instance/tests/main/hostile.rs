//! Clients that send nothing, too much, or nonsense.

use std::{net::SocketAddr, time::Duration};

use futures::future::join_all;
use postgres_instance::status_api::Limits;
use postgres_model::report::InstanceReport;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{TestServer, exchange, head, limits, read_to_end, report};

/// Connects and sends the first bytes of a request.
async fn connect(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// Waits until the server has closed a connection. It can also have been reset.
async fn until_closed(stream: impl AsyncRead + Unpin) {
    let _ = read_to_end(stream).await;
}

/// Opens 1,000 connections in batches. After each batch, `check` runs, and all connections above the
/// limit must be closed.
async fn open_thousand(address: SocketAddr, bytes: &[u8], check: impl AsyncFn()) -> Vec<TcpStream> {
    const BATCH: usize = 100;
    let mut open = Vec::new();
    for _ in 0..1000 / BATCH {
        open.extend(join_all((0..BATCH).map(|_| connect(address, bytes))).await);
        check().await;
        let surplus = open.len() - limits().connections;
        join_all(open.drain(..surplus).map(until_closed)).await;
    }
    open
}

#[tokio::test]
async fn slow_handshakes_keep_nobody_out() {
    let server = TestServer::start(limits()).await;
    let mut poll = server.connect(&server.operator).await.unwrap();
    poll.write_all(head("GET", "/status?after=1&wait=60", "").as_bytes()).await.unwrap();
    for bytes in [b"".as_slice(), b"\x16\x03\x01\x02"] {
        open_thousand(server.addresses.status, bytes, async || {
            assert_eq!(server.get("/status").await.status, 200);
        })
        .await;
    }
    server.handle.publish(InstanceReport { fencing: false, ..report() });
    let polled = String::from_utf8(read_to_end(poll).await.unwrap()).unwrap();
    assert!(polled.contains("\"fencing\":false"), "the long poll stays open: {polled}");
    server.stop().await;
}

#[tokio::test]
async fn slow_probes_keep_nobody_out() {
    let server = TestServer::start(limits()).await;
    for bytes in [b"".as_slice(), b"GET /livez HT"] {
        open_thousand(server.addresses.probes, bytes, async || {
            assert_eq!(server.probe("GET", "/livez").await.unwrap().status, 200);
        })
        .await;
    }
    server.stop().await;
}

#[tokio::test]
async fn connections_without_a_request_are_closed() {
    let handshake = Duration::from_millis(100);
    let server = TestServer::start(Limits { handshake, ..limits() }).await;
    let mut open = Vec::new();
    for (address, bytes) in [
        (server.addresses.status, b"".as_slice()),
        (server.addresses.status, b"\x16\x03\x01\x02"),
        (server.addresses.probes, b""),
        (server.addresses.probes, b"GET /livez HT"),
    ] {
        open.push(connect(address, bytes).await);
    }
    join_all(open.into_iter().map(until_closed)).await;
    server.stop().await;
}

#[tokio::test]
async fn idle_connections_of_the_operator_are_closed() {
    let idle = Duration::from_millis(100);
    let server = TestServer::start(Limits { idle, ..limits() }).await;
    for bytes in [b"".as_slice(), b"GET /status HT", b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut stream = server.connect(&server.operator).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        until_closed(stream).await;
    }
    // Neither a long poll nor a body counts as idle.
    assert_eq!(server.get("/status?after=1&wait=1").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn body_that_does_not_arrive_is_not_awaited() {
    let body = Duration::from_millis(100);
    let server = TestServer::start(Limits { body, ..limits() }).await;
    let request = head("POST", "/seal", "Content-Length: 12\r\n") + "{\"epo";
    let stream = server.connect(&server.operator).await.unwrap();
    let response = exchange(stream, &request).await.unwrap();
    assert_eq!((response.status, response.line()), (408, "the body did not arrive in time"));
    server.stop().await;
}

async fn assert_head_too_large(stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, headers: &str) {
    let response = exchange(stream, &head("GET", path, headers)).await.unwrap();
    assert_eq!(response.status, 431, "{response:?}");
}

#[tokio::test]
async fn large_heads_are_refused() {
    let server = TestServer::start(limits()).await;
    for headers in [format!("X: {}\r\n", "x".repeat(8 << 10)), "X: x\r\n".repeat(65)] {
        let stream = server.connect(&server.operator).await.unwrap();
        assert_head_too_large(stream, "/status", &headers).await;
        let stream = TcpStream::connect(server.addresses.probes).await.unwrap();
        assert_head_too_large(stream, "/livez", &headers).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let server = TestServer::start(limits()).await;
    server.handle.publish(InstanceReport { sealed_epoch: Some(7), ..report() });
    for (size, status) in [(1024, 200), (1025, 413)] {
        assert_eq!(server.seal(&format!("{:size$}", "{\"epoch\": 7}")).await.status, status, "{size} bytes");
    }
    // The server closes the connection before it has read everything, so the response can be lost.
    let request = head("POST", "/seal", "Content-Length: 10000000\r\n") + &" ".repeat(10_000_000);
    let stream = server.connect(&server.operator).await.unwrap();
    let response = exchange(stream, &request).await;
    assert!(response.as_ref().is_ok_and(|response| response.status == 413) || response.is_err());

    let chunk = format!("400\r\n{}\r\n", " ".repeat(1024));
    let request = head("POST", "/seal", "Transfer-Encoding: chunked\r\n") + &chunk + &chunk + "0\r\n\r\n";
    let stream = server.connect(&server.operator).await.unwrap();
    let response = exchange(stream, &request).await.unwrap();
    assert_eq!((response.status, response.line()), (413, "the body has more than 1024 bytes"));
    server.stop().await;
}

#[tokio::test]
async fn nonsense_closes_the_connection() {
    const NONSENSE: [&[u8]; 4] =
        [b"\0\x01\x02\x03\r\n\r\n", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"GET\r\n\r\n", b"x y z\r\n\r\n"];
    let server = TestServer::start(limits()).await;
    for bytes in NONSENSE {
        for address in [server.addresses.status, server.addresses.probes] {
            until_closed(connect(address, bytes).await).await;
        }
        let mut stream = server.connect(&server.operator).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        until_closed(stream).await;
    }
    assert_eq!(server.get("/status").await.status, 200);
    server.stop().await;
}
