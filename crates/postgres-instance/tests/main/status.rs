//! `GET /status`.

use std::time::{Duration, Instant};

use postgres_instance::status_api::Limits;
use postgres_model::report::{InstanceReport, InstanceState};
use tokio::io::AsyncWriteExt;

use crate::support::{PATIENCE, TestServer, head, limits, read_to_end, report};

#[tokio::test]
async fn operator_and_members_read_the_current_report() {
    let server = TestServer::start(limits()).await;
    assert_eq!(server.get("/status").await.report(), InstanceReport { sequence: 1, ..report() });
    server.handle.publish(InstanceReport { state: InstanceState::Standby, ..report() });
    for client in [&server.operator, &server.member] {
        let report = server.send(client, "GET", "/status").await.unwrap().report();
        assert_eq!((report.sequence, report.state), (2, InstanceState::Standby));
    }
    server.stop().await;
}

#[tokio::test]
async fn long_poll_answers_as_soon_as_the_report_changes() {
    let server = TestServer::start(limits()).await;
    let poll = async {
        let start = Instant::now();
        (server.get("/status?after=1&wait=60").await.report(), start.elapsed())
    };
    let publish = async {
        // A second long poll has to end before the report changes.
        server.get("/status?after=1&wait=1").await;
        server.handle.publish(InstanceReport { fencing: false, ..report() });
    };
    let ((polled, duration), ()) = tokio::join!(poll, publish);
    assert!(!polled.fencing && polled.sequence == 2, "{polled:?}");
    assert!(duration < PATIENCE, "{duration:?}");
    server.stop().await;
}

#[tokio::test]
async fn long_poll_answers_at_the_end_of_its_wait_or_at_once() {
    let server = TestServer::start(limits()).await;
    let start = Instant::now();
    assert_eq!(server.get("/status?after=1&wait=1").await.report().sequence, 1);
    assert!(start.elapsed() >= Duration::from_secs(1));
    // The last one has a sequence of an earlier run of the program.
    for query in ["after=0&wait=60", "after=1", "wait=60", "after=1&wait=0", "after=900&wait=60"] {
        let start = Instant::now();
        assert_eq!(server.get(&format!("/status?{query}")).await.report().sequence, 1);
        assert!(start.elapsed() < PATIENCE, "{query}");
    }
    server.stop().await;
}

#[tokio::test]
async fn other_requests_are_refused_with_what_is_possible() {
    let server = TestServer::start(limits()).await;
    for (method, path, status, line) in [
        ("GET", "/", 404, "the paths are /status, /seal, /backup, and /switch-wal"),
        ("GET", "/livez", 404, "the paths are /status, /seal, /backup, and /switch-wal"),
        ("DELETE", "/status", 405, "use the method GET"),
        ("GET", "/seal", 405, "use the method POST"),
        ("GET", "/status?after=1&wait=61", 400, "wait must be a number from 0 to 60"),
        ("GET", "/status?after=-1", 400, "after must be a number from 0 to 18446744073709551615"),
    ] {
        let response = server.send(&server.operator, method, path).await.unwrap();
        assert_eq!((response.status, response.line()), (status, line), "{method} {path}");
        let allow = line.strip_prefix("use the method ");
        assert!(
            allow.is_none_or(|method| response.head.contains(&format!("allow: {}", method.to_lowercase())))
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn report_that_is_too_large_is_an_error() {
    let server = TestServer::start(limits()).await;
    server.handle.publish(InstanceReport { member: "x".repeat(64), ..report() });
    let response = server.get("/status").await;
    assert_eq!(response.status, 500);
    assert_eq!(response.line(), "member in the report of an instance has 64 bytes, and at most 63 are read");
    server.stop().await;
}

#[tokio::test]
async fn last_report_answers_long_polls_of_a_server_that_stops() {
    for last in [InstanceState::Hold, InstanceState::Stopping] {
        let server = TestServer::start(limits()).await;
        let mut stream = server.connect(&server.operator).await.unwrap();
        stream.write_all(head("GET", "/status?after=1&wait=60", "").as_bytes()).await.unwrap();
        // The response to a later request shows that the long poll has arrived.
        server.get("/status").await;
        // Only the second one is a change.
        server.handle.publish(InstanceReport { state: last, ..report() });
        let start = Instant::now();
        server.stop().await;
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        let response = String::from_utf8(read_to_end(stream).await.unwrap()).unwrap();
        let state = format!("\"state\":\"{last:?}\"");
        assert!(response.starts_with("HTTP/1.1 200") && response.contains(&state), "{response}");
    }
}

/// The age ends a connection between two requests, never one of them.
#[tokio::test]
async fn old_connection_is_closed_after_the_request_in_progress() {
    let age = Duration::from_millis(100);
    let server = TestServer::start(Limits { age, ..limits() }).await;
    let mut stream = server.connect(&server.operator).await.unwrap();
    stream.write_all(b"GET /status?after=1&wait=1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let response = String::from_utf8(read_to_end(stream).await.unwrap()).unwrap().to_lowercase();
    assert!(response.starts_with("http/1.1 200") && response.contains("connection: close"), "{response}");
    server.stop().await;
}
