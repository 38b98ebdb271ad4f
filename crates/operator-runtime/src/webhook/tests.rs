//! Tests of the router with HTTP requests. The tests of the responses are in operator-core.

use std::{convert::Infallible, io::Read};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{Request, StatusCode, Version, header},
};
use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use operator_core::{
    admission::{self, BoxError, CREATE, Caches, Denial, Validator, Verdict, Webhook, target},
    metrics::ReviewResult,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt;
use tracing_subscriber::fmt::format::FmtSpan;

use super::{
    request_limits::{MemoryBudgets, RequestLimits},
    *,
};

/// Denies every ConfigMap. Panics for the name `panic`.
struct DenyAll;

impl Validator for DenyAll {
    type Object = ConfigMap;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, request: &admission::Request<ConfigMap>) -> Result<Verdict, BoxError> {
        assert_ne!(request.name, "panic");
        Ok(Verdict::deny(Denial::forbidden("always denied")))
    }
}

const REGISTRATION: Registration = Registration {
    webhooks: || vec![Webhook::validating::<DenyAll>("deny").on(target::<ConfigMap>(CREATE)).build()],
    ..Registration::new("test", |_| unreachable!("the controller does not run"))
};

#[derive(Default)]
struct RecordedReviews(Mutex<Vec<(String, ReviewResult)>>);

impl Metrics for RecordedReviews {
    fn reviewed(&self, webhook: &str, result: ReviewResult, _took: Duration) {
        self.0.lock().push((webhook.to_owned(), result));
    }
}

fn router(reviews: Arc<RecordedReviews>) -> Router {
    let service = tower::service_fn(|_| async {
        std::future::pending::<Result<axum::http::Response<kube::client::Body>, std::io::Error>>().await
    });
    let environment = Environment::with_metrics(kube::Client::new(service, "default"), reviews);
    Webhooks::build(&[REGISTRATION], &environment).router(false)
}

fn review(name: &str) -> Value {
    let kind = json!({ "group": "", "version": "v1", "kind": "ConfigMap" });
    let resource = json!({ "group": "", "version": "v1", "resource": "configmaps" });
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "kind": kind, "resource": resource, "name": name, "namespace": "n",
            "operation": "CREATE", "userInfo": { "username": "alice" },
            "object": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } },
        },
    })
}

fn post(path: &str, body: impl Into<String>) -> Request<Body> {
    let body = body.into();
    let request = Request::post(path).header("content-type", "application/json");
    request.header("content-length", body.len()).body(body.into()).unwrap()
}

async fn send(request: Request<Body>) -> (StatusCode, Value) {
    let response = router(Arc::default()).oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn responds_to_review_and_counts_it() {
    let reviews = Arc::<RecordedReviews>::default();
    let request = post("/test/deny?timeout=5s", review("a").to_string());
    let response = router(reviews.clone()).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["response"]["status"]["message"], "always denied");
    let panics =
        router(reviews.clone()).oneshot(post("/test/deny", review("panic").to_string())).await.unwrap();
    assert_eq!(panics.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let path = "/test/deny".to_owned();
    assert_eq!(*reviews.0.lock(), [(path.clone(), ReviewResult::Denied), (path, ReviewResult::Failed)]);
}

#[tokio::test]
async fn review_span_has_outcome() {
    let (mut read, write) = std::io::pipe().unwrap();
    let log = tracing_subscriber::fmt().json().with_max_level(tracing::Level::DEBUG);
    let log = log.with_span_events(FmtSpan::CLOSE).with_writer(std::sync::Mutex::new(write)).finish();
    let logging = tracing::subscriber::set_default(log);
    send(post("/test/deny", review("a").to_string())).await;
    drop(logging);
    let mut lines = String::new();
    read.read_to_string(&mut lines).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let closed = lines.iter().find(|line| line["fields"]["message"] == "close").unwrap();
    let expected = json!({ "name": "review", "path": "/test/deny", "uid": "1", "outcome": "denied" });
    assert_eq!(closed["span"], expected, "{lines:?}");
}

#[tokio::test]
async fn unknown_path_is_not_counted() {
    let reviews = Arc::<RecordedReviews>::default();
    let response = router(reviews.clone()).oneshot(post("/test/other", "{}")).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(reviews.0.lock().is_empty());
}

#[tokio::test]
async fn rejects_invalid_requests_with_expected_values() {
    let truncated = review("a").to_string().split_off(20);
    let unknown = review("a").to_string().replace("admission.k8s.io/v1", "admission.k8s.io/v7");
    let other = review("a").to_string().replace("configmaps", "secrets");
    let json = |request: axum::http::request::Builder| request.header("content-type", "application/json");
    for (request, status, expected) in [
        (post("/", "{}"), 404, "no webhook is served at this path"),
        (Request::get("/test/deny").body(Body::empty()).unwrap(), 405, "with POST"),
        (Request::post("/test/deny").body(Body::empty()).unwrap(), 415, "application/json"),
        (json(Request::post("/test/deny")).body(Body::empty()).unwrap(), 411, "Content-Length"),
        (
            json(Request::post("/test/deny")).header("content-length", "12").body("short".into()).unwrap(),
            400,
            "differs from Content-Length",
        ),
        (
            json(Request::post("/test/deny")).header("content-length", "2").body("longer".into()).unwrap(),
            400,
            "differs from Content-Length",
        ),
        (
            json(Request::post("/test/deny")).header("content-length", "-1").body("x".into()).unwrap(),
            411,
            "Content-Length",
        ),
        (
            json(Request::post("/test/deny")).header("content-length", "9000000").body("x".into()).unwrap(),
            413,
            "the limit is 4 MiB",
        ),
        (post("/test/deny", ""), 400, "no AdmissionReview in JSON"),
        (post("/test/deny", truncated), 400, "no AdmissionReview in JSON"),
        (post("/test/deny", unknown), 400, "found kind AdmissionReview of admission.k8s.io/v7"),
        (post("/test/deny", other), 400, "reviews CREATE of configmaps of v1, found CREATE of secrets of v1"),
        (post("/test/deny", "[".repeat(100_000)), 400, "levels deep"),
        (post("/test/deny", review(&"x".repeat(5000)).to_string()), 400, "no AdmissionReview in JSON"),
        (post("/test/deny", format!("[{}0]", "{},".repeat(1_000_000))), 413, "too many values"),
    ] {
        let (actual, body) = send(request).await;
        assert_eq!(actual.as_u16(), status, "{body}");
        assert_eq!((&body["kind"], &body["code"]), (&json!("Status"), &json!(status)));
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message:?} must contain {expected:?}");
    }
}

fn stalled(length: usize) -> Request<Body> {
    let request = Request::post("/").header("content-type", "application/json");
    request
        .header("content-length", length)
        .body(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()))
        .unwrap()
}

/// Returns limits with 1 MiB for small reviews and 8 MiB for large reviews.
fn limits(max_body: usize, timeout: Duration, bodies: [usize; 2]) -> Arc<RequestLimits> {
    Arc::new(RequestLimits::new(max_body, timeout, &MemoryBudgets::new(bodies, [1 << 20, 1 << 23])))
}

#[tokio::test]
async fn stalled_body_times_out() {
    let limits = limits(1024, Duration::from_millis(10), [1 << 20; 2]);
    let error = limits.read_body(stalled(10)).await.unwrap_err();
    assert_eq!(error.status, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn rejects_bodies_above_memory_budget() {
    // Memory for two bodies of the minimum size.
    let limits = limits(1024, Duration::from_mins(1), [8 * 1024; 2]);
    let [first, second] = [0, 1].map(|_| {
        let limits = limits.clone();
        tokio::spawn(async move { limits.read_body(stalled(10)).await })
    });
    tokio::task::yield_now().await;
    let error = limits.read_body(post("/", "{}")).await.unwrap_err();
    assert_eq!(error.status, StatusCode::TOO_MANY_REQUESTS);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(limits.read_body(post("/", "{}")).await.unwrap().bytes, b"{}");
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn stalled_large_bodies_do_not_block_small_ones() {
    let limits = limits(1024 * 1024, Duration::from_mins(1), [1 << 20; 2]);
    let background = limits.clone();
    let large = tokio::spawn(async move { background.read_body(stalled(1024 * 1024)).await });
    tokio::task::yield_now().await;
    assert_eq!(
        limits.read_body(stalled(1024 * 1024)).await.unwrap_err().status,
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(limits.read_body(post("/", "{}")).await.unwrap().bytes, b"{}");
    large.abort();
}

#[tokio::test(start_paused = true)]
async fn memory_of_parsed_values_counts() {
    let limits = limits(1 << 20, Duration::from_mins(1), [1 << 20; 2]);
    let many = |count: usize| post("/", format!("[{}{{}}]", "{},".repeat(count)));
    let expensive = limits.read_body(many(100_000)).await.unwrap();
    let error = limits.reserve_for_admission(&expensive, 1).await.unwrap_err();
    assert_eq!(error.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(error.message.contains("too many values"), "{}", error.message);

    // Two large reviews exceed the pool together. A small review has its own pool.
    let large = limits.read_body(many(10_000)).await.unwrap();
    let reservation = limits.reserve_for_admission(&large, 1).await.unwrap();
    assert_eq!(
        limits.reserve_for_admission(&large, 1).await.unwrap_err().status,
        StatusCode::TOO_MANY_REQUESTS
    );
    let small = limits.read_body(post("/", "{}")).await.unwrap();
    limits.reserve_for_admission(&small, 1).await.unwrap();
    drop(reservation);
    limits.reserve_for_admission(&large, 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waits_for_body_and_values_share_their_time() {
    // Memory for one body of the minimum size.
    let limits = limits(1024, Duration::from_mins(1), [4 * 1024; 2]);
    let first = limits.read_body(post("/", "{}")).await.unwrap();
    // All memory for the values of small reviews.
    let values = limits.reserve_for_conversion(&first, |_| (1 << 20) - 66 * 1024).await.unwrap();
    drop(first);
    let background = limits.clone();
    let stalled = tokio::spawn(async move { background.read_body(stalled(10)).await });
    tokio::task::yield_now().await;

    let began = tokio::time::Instant::now();
    let review = tokio::spawn(async move {
        let body = limits.read_body(post("/", "{}")).await?;
        limits.reserve_for_admission(&body, 1).await.map(drop)
    });
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_secs(3)).await;
    stalled.abort();
    assert_eq!(review.await.unwrap().unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(began.elapsed().as_secs(), 4);
    drop(values);
}

#[tokio::test(start_paused = true)]
async fn large_conversion_reserves_whole_pool() {
    let limits = limits(1 << 20, Duration::from_mins(1), [1 << 20; 2]);
    let large = limits.read_body(post("/", " ".repeat(1 << 19))).await.unwrap();
    let (reservation, memory) = limits.reserve_for_conversion(&large, |_| 0).await.unwrap();
    assert_eq!(memory.object + memory.response, 1 << 23);
    let again = limits.reserve_for_conversion(&large, |_| 0).await.unwrap_err();
    assert_eq!(again.status, StatusCode::TOO_MANY_REQUESTS);
    let small = limits.read_body(post("/", "{}")).await.unwrap();
    let (_, memory) = limits.reserve_for_conversion(&small, |_| 7).await.unwrap();
    assert_eq!(memory.object, 7);
    drop(reservation);
}

#[tokio::test]
async fn rejects_conversions_with_long_strings() {
    let limits = limits(3 << 20, Duration::from_mins(1), [1 << 20, 1 << 23]);
    let string = |length: usize| post("/", format!("[\"{}\"]", "x".repeat(length)));
    let longest = limits.read_body(string(2 << 20)).await.unwrap();
    limits.reserve_for_conversion(&longest, |_| 0).await.unwrap();
    let too_long = limits.read_body(string((2 << 20) + 1)).await.unwrap();
    let error = limits.reserve_for_conversion(&too_long, |_| 0).await.unwrap_err();
    assert_eq!(error.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(error.message.contains("at most 2 MiB"), "{}", error.message);
}

#[tokio::test]
async fn responses_ask_clients_to_close_connections_after_stop() {
    let stop = CancellationToken::new();
    let closing = from_fn_with_state(stop.clone(), ask_to_close_after_stop);
    let router = Router::new().fallback(async || "").layer(closing);
    let connection = async |version| {
        let request = Request::builder().version(version).body(Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap().headers().get(header::CONNECTION).cloned()
    };
    assert_eq!(connection(Version::HTTP_11).await, None);
    stop.cancel();
    assert_eq!(connection(Version::HTTP_11).await.unwrap(), "close");
    assert_eq!(connection(Version::HTTP_2).await, None, "HTTP/2 does not allow the header");
}
