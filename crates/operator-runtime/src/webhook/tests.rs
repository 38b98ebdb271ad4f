//! The router, asked as HTTP clients ask it; what the answers are is tested in operator-core.

use std::{convert::Infallible, io::Read};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{Request, StatusCode},
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
    intake::{Intake, Rooms},
    *,
};

/// Denies every ConfigMap; panics at the name `panic`.
struct Grumpy;

impl Validator for Grumpy {
    type Object = ConfigMap;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, request: &admission::Request<ConfigMap>) -> Result<Verdict, BoxError> {
        assert_ne!(request.name, "panic");
        Ok(Verdict::deny(Denial::forbidden("not today")))
    }
}

const REGISTRATION: Registration = Registration {
    name: "test",
    companions: &[],
    rules: Vec::new,
    crds: Vec::new,
    webhooks: || vec![Webhook::validating::<Grumpy>("grumpy").on(target::<ConfigMap>(CREATE)).build()],
    policies: |_| Vec::new(),
    conversions: Vec::new,
    gauges: || &[],
    settings: || &[],
    owned_finalizer: || None,
    leftovers: Vec::new,
    build: |_| unreachable!("nobody runs it"),
};

#[derive(Default)]
struct Counts(Mutex<Vec<(String, ReviewResult)>>);

impl Metrics for Counts {
    fn reviewed(&self, webhook: &str, ended: ReviewResult, _took: Duration) {
        self.0.lock().push((webhook.to_owned(), ended));
    }
}

fn router(counts: Arc<Counts>) -> Router {
    let service = tower::service_fn(|_| async {
        std::future::pending::<Result<axum::http::Response<kube::client::Body>, std::io::Error>>().await
    });
    let environment = Environment::measured(kube::Client::new(service, "default"), counts);
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

async fn ask(request: Request<Body>) -> (StatusCode, Value) {
    let response = router(Arc::default()).oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_review_is_answered_and_counted() {
    let counts = Arc::<Counts>::default();
    let request = post("/test/grumpy?timeout=5s", review("a").to_string());
    let response = router(counts.clone()).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["response"]["status"]["message"], "not today");
    let panics =
        router(counts.clone()).oneshot(post("/test/grumpy", review("panic").to_string())).await.unwrap();
    assert_eq!(panics.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let path = "/test/grumpy".to_owned();
    assert_eq!(*counts.0.lock(), [(path.clone(), ReviewResult::Denied), (path, ReviewResult::Failed)]);
}

#[tokio::test]
async fn a_review_is_a_span_that_says_how_it_ended() {
    let (mut read, write) = std::io::pipe().unwrap();
    let log = tracing_subscriber::fmt().json().with_max_level(tracing::Level::DEBUG);
    let log = log.with_span_events(FmtSpan::CLOSE).with_writer(std::sync::Mutex::new(write)).finish();
    let logging = tracing::subscriber::set_default(log);
    ask(post("/test/grumpy", review("a").to_string())).await;
    drop(logging);
    let mut lines = String::new();
    read.read_to_string(&mut lines).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let closed = lines.iter().find(|line| line["fields"]["message"] == "close").unwrap();
    let expected = json!({ "name": "review", "path": "/test/grumpy", "uid": "1", "outcome": "denied" });
    assert_eq!(closed["span"], expected, "{lines:?}");
}

#[tokio::test]
async fn paths_of_strangers_are_not_counted() {
    let counts = Arc::<Counts>::default();
    let response = router(counts.clone()).oneshot(post("/test/other", "{}")).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(counts.0.lock().is_empty());
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_what_was_expected() {
    let truncated = review("a").to_string().split_off(20);
    let unknown = review("a").to_string().replace("admission.k8s.io/v1", "admission.k8s.io/v7");
    let other = review("a").to_string().replace("configmaps", "secrets");
    let json = |request: axum::http::request::Builder| request.header("content-type", "application/json");
    for (request, status, says) in [
        (post("/", "{}"), 404, "no webhook is served at this path"),
        (Request::get("/test/grumpy").body(Body::empty()).unwrap(), 405, "by POST"),
        (Request::post("/test/grumpy").body(Body::empty()).unwrap(), 415, "application/json"),
        (json(Request::post("/test/grumpy")).body(Body::empty()).unwrap(), 411, "Content-Length"),
        (
            json(Request::post("/test/grumpy")).header("content-length", "12").body("short".into()).unwrap(),
            400,
            "not as long",
        ),
        (
            json(Request::post("/test/grumpy")).header("content-length", "2").body("longer".into()).unwrap(),
            400,
            "not as long",
        ),
        (
            json(Request::post("/test/grumpy")).header("content-length", "-1").body("x".into()).unwrap(),
            411,
            "Content-Length",
        ),
        (
            json(Request::post("/test/grumpy")).header("content-length", "9000000").body("x".into()).unwrap(),
            413,
            "at most 4 MiB",
        ),
        (post("/test/grumpy", ""), 400, "no AdmissionReview in JSON"),
        (post("/test/grumpy", truncated), 400, "no AdmissionReview in JSON"),
        (post("/test/grumpy", unknown), 400, "found kind AdmissionReview of admission.k8s.io/v7"),
        (
            post("/test/grumpy", other),
            400,
            "reviews CREATE of configmaps of v1; this is CREATE of secrets of v1",
        ),
        (post("/test/grumpy", "[".repeat(100_000)), 400, "levels deep"),
        (post("/test/grumpy", review(&"x".repeat(5000)).to_string()), 400, "no AdmissionReview in JSON"),
        (post("/test/grumpy", format!("[{}0]", "{},".repeat(1_000_000))), 413, "too many values"),
    ] {
        let (answered, body) = ask(request).await;
        assert_eq!(answered.as_u16(), status, "{body}");
        assert_eq!((&body["kind"], &body["code"]), (&json!("Status"), &json!(status)));
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(says), "{message:?} should say {says:?}");
    }
}

fn endless(length: usize) -> Request<Body> {
    let request = Request::post("/").header("content-type", "application/json");
    request
        .header("content-length", length)
        .body(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()))
        .unwrap()
}

/// So much room for small and large bodies to arrive, and enough to be answered.
fn intake(limit: usize, time: Duration, arriving: [usize; 2]) -> Arc<Intake> {
    Arc::new(Intake::new(limit, time, &Rooms::new(arriving, [1 << 20, 1 << 23])))
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_not_waited_for_for_ever() {
    let intake = intake(1024, Duration::from_millis(10), [1 << 20; 2]);
    let refusal = intake.take(endless(10)).await.unwrap_err();
    assert_eq!(refusal.status, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn there_is_room_for_so_much_and_no_more() {
    // Of the smallest bodies, two.
    let intake = intake(1024, Duration::from_mins(1), [8 * 1024; 2]);
    let [first, second] = [0, 1].map(|_| {
        let intake = intake.clone();
        tokio::spawn(async move { intake.take(endless(10)).await })
    });
    tokio::task::yield_now().await;
    let refusal = intake.take(post("/", "{}")).await.unwrap_err();
    assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(intake.take(post("/", "{}")).await.unwrap().body, b"{}");
    second.abort();
}

#[tokio::test]
async fn large_bodies_that_do_not_arrive_hold_up_no_small_ones() {
    let intake = intake(1024 * 1024, Duration::from_mins(1), [1 << 20; 2]);
    let waiting = intake.clone();
    let large = tokio::spawn(async move { waiting.take(endless(1024 * 1024)).await });
    tokio::task::yield_now().await;
    assert_eq!(intake.take(endless(1024 * 1024)).await.unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(intake.take(post("/", "{}")).await.unwrap().body, b"{}");
    large.abort();
}

#[tokio::test]
async fn what_a_body_parses_into_is_what_counts() {
    let intake = intake(1 << 20, Duration::from_mins(1), [1 << 20; 2]);
    let many = |count: usize| post("/", format!("[{}{{}}]", "{},".repeat(count)));
    let hungry = intake.take(many(100_000)).await.unwrap();
    let refusal = intake.room_to_admit(&hungry, 1).await.unwrap_err();
    assert_eq!(refusal.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(refusal.message.contains("too many values"), "{}", refusal.message);

    // Two that fit, but not both at once; a small one goes past them.
    let large = intake.take(many(10_000)).await.unwrap();
    let room = intake.room_to_admit(&large, 1).await.unwrap();
    assert_eq!(intake.room_to_admit(&large, 1).await.unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
    let small = intake.take(post("/", "{}")).await.unwrap();
    intake.room_to_admit(&small, 1).await.unwrap();
    drop(room);
    intake.room_to_admit(&large, 1).await.unwrap();
}

#[tokio::test]
async fn a_large_conversion_has_the_room_for_itself() {
    let intake = intake(1 << 20, Duration::from_mins(1), [1 << 20; 2]);
    let large = intake.take(post("/", " ".repeat(1 << 19))).await.unwrap();
    let (room, share) = intake.room_to_convert(&large, |_| 0).await.unwrap();
    assert_eq!(share.object + share.answer, 1 << 23);
    let again = intake.room_to_convert(&large, |_| 0).await.unwrap_err();
    assert_eq!(again.status, StatusCode::TOO_MANY_REQUESTS);
    let small = intake.take(post("/", "{}")).await.unwrap();
    let (_, share) = intake.room_to_convert(&small, |_| 7).await.unwrap();
    assert_eq!(share.object, 7);
    drop(room);
}
