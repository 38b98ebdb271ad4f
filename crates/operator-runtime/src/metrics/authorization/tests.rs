//! Tests against a stub of the API server. The end-to-end tests cover the real one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::{Router, body::Body, middleware::from_fn_with_state, routing::get};
use futures::future::join_all;
use kube::client::Body as KubeBody;
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};

use super::*;

/// Stub for reviews: the user of token `good` is allowed, the user of `weak` is not, and any other
/// token is invalid.
#[derive(Default)]
struct Stub {
    reviews: AtomicUsize,
    reviews_in_flight: AtomicUsize,
    max_in_flight: AtomicUsize,
    is_unavailable: AtomicBool,
}

impl Stub {
    fn client(self: &Arc<Self>) -> Client {
        let stub = self.clone();
        let answer = move |request: http::Request<KubeBody>| {
            let stub = stub.clone();
            async move {
                if stub.is_unavailable.load(Ordering::Relaxed) {
                    return Err(std::io::Error::other("connection refused"));
                }
                let is_token = request.uri().path().ends_with("tokenreviews");
                let review = request.into_body().collect_bytes().await.map_err(std::io::Error::other)?;
                let review: Value = serde_json::from_slice(&review).map_err(std::io::Error::other)?;
                let answer = if is_token { stub.token_review(&review).await } else { access_review(&review) };
                Ok(http::Response::builder()
                    .status(201)
                    .body(KubeBody::from(answer.to_string().into_bytes()))
                    .unwrap())
            }
        };
        Client::new(service_fn(answer), "default")
    }

    async fn token_review(&self, review: &Value) -> Value {
        self.reviews.fetch_add(1, Ordering::Relaxed);
        let now = self.reviews_in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.max_in_flight.fetch_max(now, Ordering::Relaxed);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.reviews_in_flight.fetch_sub(1, Ordering::Relaxed);
        let status = match review["spec"]["token"].as_str().unwrap() {
            name @ ("good" | "weak") => json!({"authenticated": true, "user": {"username": name}}),
            _ => json!({"authenticated": false, "error": "", "user": {"username": "good"}}),
        };
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}, "status": status})
    }
}

fn access_review(review: &Value) -> Value {
    let good = review["spec"]["user"] == "good"
        && review["spec"]["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {}, "status": {"allowed": good}})
}

fn router(stub: &Arc<Stub>) -> Router {
    let routes =
        Router::new().route("/metrics", get(async || "numbers")).route("/debug", get(async || "other"));
    routes.route_layer(from_fn_with_state(Authorizer::new(stub.client()), authorize))
}

fn request(path: &str, authorization: Option<&str>) -> Request {
    let request = http::Request::get(path);
    let request = match authorization {
        Some(value) => request.header(AUTHORIZATION, value),
        None => request,
    };
    request.body(Body::empty()).unwrap()
}

async fn answer(router: &Router, path: &str, authorization: Option<&str>) -> (u16, String) {
    let response = router.clone().oneshot(request(path, authorization)).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn serves_only_authorized_users_and_explains_rejection() {
    let stub = Arc::new(Stub::default());
    let router = router(&stub);
    for (path, authorization, status, expected) in [
        ("/metrics", None, 401, "has no bearer token"),
        ("/metrics", Some("Basic Z29vZDpnb29k"), 401, "has no bearer token"),
        ("/metrics", Some("Bearer "), 401, "has no bearer token"),
        ("/metrics", Some("Bearer invalid"), 401, "does not accept this token"),
        ("/metrics", Some("Bearer weak"), 403, "weak may not get /metrics"),
        ("/debug", Some("Bearer good"), 403, "good may not get /debug"),
        ("/metrics", Some("Bearer good"), 200, "numbers"),
        ("/metrics", Some("bearer good"), 200, "numbers"),
        ("/nothing", None, 404, ""),
    ] {
        let (actual, body) = answer(&router, path, authorization).await;
        assert_eq!(actual, status, "{path} {authorization:?}: {body}");
        assert!(body.contains(expected), "{path} {authorization:?}: {body}");
    }
    let response = router.oneshot(request("/metrics", None)).await.unwrap();
    assert!(response.headers()[WWW_AUTHENTICATE].to_str().unwrap().starts_with("Bearer"));
}

#[tokio::test]
async fn rejects_malformed_tokens_without_review() {
    let stub = Arc::new(Stub::default());
    let router = router(&stub);
    let long = format!("Bearer {}", "x".repeat(MAX_TOKEN_LENGTH + 1));
    for authorization in [None, Some("Bearer"), Some("Bearer  "), Some(long.as_str())] {
        assert_eq!(answer(&router, "/metrics", authorization).await.0, 401);
    }
    assert_eq!(stub.reviews.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn uses_cached_results_during_outage() {
    let stub = Arc::new(Stub::default());
    let router = router(&stub);
    for _ in 0..20 {
        assert_eq!(answer(&router, "/metrics", Some("Bearer good")).await.0, 200);
        assert_eq!(answer(&router, "/metrics", Some("Bearer invalid")).await.0, 401);
    }
    assert_eq!(stub.reviews.load(Ordering::Relaxed), 2);
    stub.is_unavailable.store(true, Ordering::Relaxed);
    assert_eq!(answer(&router, "/metrics", Some("Bearer good")).await.0, 200);
    let (status, body) = answer(&router, "/metrics", Some("Bearer another")).await;
    assert_eq!(status, 503);
    assert!(body.contains("cannot authorize the request"), "{body}");
    stub.is_unavailable.store(false, Ordering::Relaxed);
    assert_eq!(answer(&router, "/metrics", Some("Bearer another")).await.0, 401, "failures are not cached");
}

#[tokio::test]
async fn limits_concurrent_reviews() {
    let stub = Arc::new(Stub::default());
    let router = router(&stub);
    let clients = (0..200).map(|number| {
        let router = router.clone();
        async move { answer(&router, "/metrics", Some(&format!("Bearer client-{number}"))).await.0 }
    });
    assert!(join_all(clients).await.iter().all(|status| *status == 401));
    assert_eq!(stub.reviews.load(Ordering::Relaxed), 200);
    assert!(stub.max_in_flight.load(Ordering::Relaxed) <= MAX_CONCURRENT_REVIEWS);

    let same = (0..200).map(|_| answer(&router, "/metrics", Some("Bearer good")));
    assert!(join_all(same).await.iter().all(|(status, _)| *status == 200));
    let reviews = stub.reviews.load(Ordering::Relaxed) - 200;
    assert!(reviews <= MAX_CONCURRENT_REVIEWS, "one request was reviewed {reviews} times");
}
