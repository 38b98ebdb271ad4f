//! Attacks that use up what others need.

use serde_json::Value;
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};

use super::{
    BY_ALICE, NAMESPACES, OF_ALICE, PATIENCE, Setup,
    client::{Response, http1, read_all},
    frames::{CONTINUATION, END_HEADERS, END_STREAM, HEADERS, Http2, Outcome, block, frame, get, request},
    is_view, start, start_with,
};
use crate::upstream::{Answer, Recorded};

/// Most connections of the proxy in these tests.
const CONNECTIONS: usize = 64;

async fn start_small() -> Setup {
    start_with(&["--max-connections", &CONNECTIONS.to_string()]).await
}

#[tokio::test]
async fn ten_thousand_idle_connections_leave_room() {
    /// A batch is below the usual limit of open files.
    const BATCH: usize = 500;
    let setup = start_small().await;
    for _ in 0..10_000 / BATCH {
        let mut idle = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            idle.push(TcpStream::connect(setup.address).await.unwrap());
        }
        setup.assert_serves().await;
        for stream in idle.iter_mut().take(BATCH - CONNECTIONS) {
            let read = timeout(PATIENCE, stream.read(&mut [0])).await.expect("the connection stays open");
            assert!(matches!(read, Ok(0) | Err(_)));
        }
    }
}

#[tokio::test]
async fn slow_heads_and_slow_bodies_leave_room() {
    const SLOW: usize = 40;
    // Longer than a body that the proxy keeps, so the API server receives its beginning.
    const BODY: usize = 70 << 10;
    let setup = start_small().await;
    let (mut heads, mut bodies) = (Vec::new(), Vec::new());
    for _ in 0..SLOW {
        let mut stream = setup.connect().await;
        setup.write(&mut stream, b"GET /version HTTP/1.1\r\nHost: pro").await;
        heads.push(stream);
    }
    let length = format!("Content-Length: {BODY}");
    let body = http1("POST /slow", &[BY_ALICE, &length]);
    for _ in 0..SLOW {
        let mut stream = setup.connect().await;
        setup.write(&mut stream, &[&body[..], b"b"].concat()).await;
        bodies.push(stream);
    }
    let are_begun = |all: &Vec<Recorded>| all.iter().filter(|one| one.target == "/slow").count() == SLOW;
    timeout(PATIENCE, setup.upstream.wait_for(are_begun)).await.unwrap();
    setup.assert_serves().await;
    for stream in heads.iter_mut().take(2 * SLOW - CONNECTIONS) {
        assert!(read_all(stream).await.is_empty(), "the oldest connections without a request are closed");
    }
    for stream in &mut bodies {
        setup.write(stream, &vec![b'x'; BODY - 1]).await;
        assert_eq!(Response::parse(&read_all(stream).await).status, 200, "a request in progress stays");
    }
}

#[tokio::test]
async fn slow_short_body_reaches_the_api_server_when_it_is_whole() {
    let setup = start().await;
    let mut stream = setup.connect().await;
    let head = http1("POST /slow", &[BY_ALICE, "Content-Length: 4"]);
    setup.write(&mut stream, &[&head[..], b"b"].concat()).await;
    // It takes what the API server has received so far.
    setup.assert_serves().await;
    setup.write(&mut stream, b"ody").await;
    assert_eq!(Response::parse(&read_all(&mut stream).await).status, 200);
    setup.assert_only_received("a slow short body", "/slow", "alice");
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let setup = start().await;
    let long = format!("X: {}", "x".repeat(70 << 10));
    let lines: Vec<_> = (0..80).map(|number| format!("X-{number}: {}", "x".repeat(1 << 10))).collect();
    let many: Vec<_> = (0..200).map(|number| format!("X-{number}: x")).collect();
    for (attack, headers) in [("a long header", vec![long]), ("long headers", lines), ("many headers", many)]
    {
        let headers: Vec<_> = [BY_ALICE].into_iter().chain(headers.iter().map(String::as_str)).collect();
        assert_eq!(setup.send("GET /version", &headers).await.status, 431, "{attack}");
        setup.assert_nothing_received(attack);
    }
    let target = format!("GET /{}", "x".repeat(70 << 10));
    assert!(matches!(setup.send_by_alice(&target).await.status, 414 | 431));
    let long = "x".repeat(70 << 10);
    let fields = [&get("/version", "Bearer alice")[..], &[("x", &long)]].concat();
    let block = block(&fields);
    let parts: Vec<_> = block.chunks(16 << 10).collect();
    let (last, rest) = parts[1..].split_last().unwrap();
    let first = frame(HEADERS, END_STREAM, 1, parts[0]);
    let rest: Vec<_> = rest.iter().flat_map(|part| frame(CONTINUATION, 0, 1, part)).collect();
    let mut connection = Http2::open(&setup, &[]).await;
    connection.write(&setup, &[first, rest, frame(CONTINUATION, END_HEADERS, 1, last)].concat()).await;
    assert_eq!(connection.outcome(1).await, Outcome::Status(431));
    setup.assert_nothing_received("a long header of HTTP/2");
    setup.assert_serves().await;
}

#[tokio::test]
async fn requests_of_one_credential_are_bounded() {
    const MAX_REQUESTS: usize = 512;
    /// Most streams of a connection.
    const STREAMS: u32 = 250;
    let setup = start().await;
    setup.upstream.override_answers(|request| (request.target == "/endless").then(|| Answer::watch(&[])));
    let mut connections = Vec::new();
    for streams in [STREAMS, STREAMS, 12] {
        let mut connection = Http2::open(&setup, &[]).await;
        let one = |number| request(2 * number + 1, &get("/endless", "Bearer alice"));
        connection.write(&setup, &(0..streams).flat_map(one).collect::<Vec<_>>()).await;
        connections.push(connection);
    }
    let are_begun =
        |all: &Vec<Recorded>| all.iter().filter(|one| one.target == "/endless").count() == MAX_REQUESTS;
    timeout(PATIENCE, setup.upstream.wait_for(are_begun)).await.unwrap();
    let response = setup.send_by_alice("GET /version").await;
    assert_eq!(response.status, 429, "{response:?}");
    assert!(response.head.contains("retry-after: 1"), "{response:?}");
    assert_eq!(setup.send("GET /version", &["Authorization: Bearer bob"]).await.status, 200);
    let received = setup.received();
    assert_eq!(received.len(), MAX_REQUESTS + 1);
}

#[tokio::test]
async fn views_of_one_user_are_bounded() {
    const MAX_VIEWS: usize = 8;
    let setup = start().await;
    setup.upstream.override_answers(|request| {
        (is_view(request) && request.target.ends_with(OF_ALICE))
            .then(|| Answer { is_withheld: true, ..Answer::json(200, &Value::Null) })
    });
    let mut connection = Http2::open(&setup, &[]).await;
    let one =
        |number: usize| request(u32::try_from(2 * number + 1).unwrap(), &get(NAMESPACES, "Bearer alice"));
    connection.write(&setup, &(0..MAX_VIEWS).flat_map(one).collect::<Vec<_>>()).await;
    let are_begun = |all: &Vec<Recorded>| all.iter().filter(|one| is_view(one)).count() == MAX_VIEWS;
    timeout(PATIENCE, setup.upstream.wait_for(are_begun)).await.unwrap();
    let list = format!("GET {NAMESPACES}");
    assert_eq!(setup.send_by_alice(&list).await.status, 429);
    // The name of the user counts, not the credential.
    let as_alice = ["Authorization: Bearer admin", "Impersonate-User: alice"];
    assert_eq!(setup.send(&list, &as_alice).await.status, 429);
    assert_eq!(setup.send_by_alice("GET /version").await.status, 200, "other requests go on");
    assert_eq!(setup.send(&list, &["Authorization: Bearer bob"]).await.status, 200);
    setup.upstream.override_answers(|_| None);
    drop(connection);
    let until_free = async { while setup.send_by_alice(&list).await.status != 200 {} };
    timeout(PATIENCE, until_free).await.expect("requests whose client has gone still count");
    setup.received();
}

#[tokio::test]
async fn reviews_of_all_users_are_bounded() {
    const MAX_REVIEWS: usize = 200;
    const REVIEW: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let setup = start().await;
    setup.upstream.override_answers(|request| {
        // The proxy reads it, and waits for its end.
        (request.target == REVIEW && request.is_by("alice"))
            .then(|| Answer { status: 201, ..Answer::watch(&[Value::Null]) })
    });
    let mut connection = Http2::open(&setup, &[]).await;
    let mut fields = get(REVIEW, "Bearer alice");
    fields[0] = (":method", "POST");
    let one = |number: usize| request(u32::try_from(2 * number + 1).unwrap(), &fields);
    connection.write(&setup, &(0..MAX_REVIEWS).flat_map(one).collect::<Vec<_>>()).await;
    let are_begun =
        |all: &Vec<Recorded>| all.iter().filter(|one| one.target == REVIEW).count() == MAX_REVIEWS;
    timeout(PATIENCE, setup.upstream.wait_for(are_begun)).await.unwrap();
    let review = format!("POST {REVIEW}");
    setup
        .upstream
        .override_answers(|request| (request.target == REVIEW).then(|| Answer::json(201, &Value::Null)));
    let by_bob = ["Authorization: Bearer bob", "Content-Length: 0"];
    let until_refused = async { while setup.send(&review, &by_bob).await.status != 429 {} };
    timeout(PATIENCE, until_refused).await.expect("more reviews are kept");
    assert_eq!(setup.send("GET /version", &by_bob[..1]).await.status, 200, "other requests go on");
    drop(connection);
    let until_free = async { while setup.send(&review, &by_bob).await.status != 201 {} };
    timeout(PATIENCE, until_free).await.expect("reviews whose client has gone still count");
    setup.received();
}
