//! Authentication and authorization of requests to the metrics server.

mod cache;
mod reviews;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::SubjectAccessReview,
};
use kube::{Api, Client, api::PostParams};
use operator_core::error::chain;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::timeout};
use tracing::warn;

use self::cache::{RequestAttributes, ReviewCache};

/// Maximum number of concurrent reviews, so that unauthenticated clients cannot load the API
/// server.
const MAX_CONCURRENT_REVIEWS: usize = 4;
/// Timeout of a review.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a token. Longer ones are rejected without a review.
const MAX_TOKEN_LENGTH: usize = 16 << 10;

/// Authorizes requests with TokenReviews and SubjectAccessReviews, with a cache. Cheap to clone;
/// clones share their state.
#[derive(Clone)]
pub(super) struct Authorizer {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    cache: Mutex<ReviewCache>,
    reviews_in_flight: Semaphore,
    /// Whether the last review succeeded, so that an outage is logged once.
    is_unavailable: Mutex<bool>,
}

/// Result of the authorization of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The request is allowed.
    Allowed,
    /// The token is not valid.
    Unknown,
    /// The token belongs to this user, who is not allowed.
    Forbidden(String),
}

/// Error when the API server does not respond in time.
#[derive(Debug)]
struct ReviewUnavailable;

impl Authorizer {
    pub(super) fn new(client: Client) -> Self {
        let shared = Shared {
            client,
            cache: Mutex::default(),
            reviews_in_flight: Semaphore::new(MAX_CONCURRENT_REVIEWS),
            is_unavailable: Mutex::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    async fn verdict(&self, attributes: &RequestAttributes<'_>) -> Result<Verdict, ReviewUnavailable> {
        if let Some(verdict) = self.cached(attributes) {
            return Ok(verdict);
        }
        timeout(TIMEOUT, self.review_limited(attributes)).await.unwrap_or_else(|_| {
            self.log_outage("the request timed out");
            Err(ReviewUnavailable)
        })
    }

    fn cached(&self, attributes: &RequestAttributes<'_>) -> Option<Verdict> {
        self.shared.cache.lock().get(&attributes.key(), Instant::now())
    }

    async fn review_limited(&self, attributes: &RequestAttributes<'_>) -> Result<Verdict, ReviewUnavailable> {
        let _permit = self.shared.reviews_in_flight.acquire().await.map_err(|_| ReviewUnavailable)?;
        // Another request may have got the same result while this one waited.
        if let Some(verdict) = self.cached(attributes) {
            return Ok(verdict);
        }
        let verdict = self.review(attributes).await.map_err(|error| {
            self.log_outage(&chain(&error));
            ReviewUnavailable
        })?;
        *self.shared.is_unavailable.lock() = false;
        self.shared.cache.lock().insert(attributes.key(), verdict.clone(), Instant::now());
        Ok(verdict)
    }

    async fn review(&self, attributes: &RequestAttributes<'_>) -> kube::Result<Verdict> {
        let spec = TokenReviewSpec { token: attributes.token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = self.api().create(&PostParams::default(), &review).await?;
        let Some(user) = reviews::user(review.status) else { return Ok(Verdict::Unknown) };
        let name = user.username.clone().unwrap_or_default();
        let review = reviews::access_review(user, attributes.path, &attributes.verb());
        let review: SubjectAccessReview = self.api().create(&PostParams::default(), &review).await?;
        Ok(if reviews::is_allowed(review.status) { Verdict::Allowed } else { Verdict::Forbidden(name) })
    }

    fn api<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.shared.client.clone())
    }

    /// Logs once that the API server does not respond to reviews.
    fn log_outage(&self, error: &str) {
        if !std::mem::replace(&mut *self.shared.is_unavailable.lock(), true) {
            warn!(
                error,
                "cannot authorize requests for metrics: the API server does not respond; responding with 503"
            );
        }
    }
}

/// Middleware that passes a request on if its user is allowed.
pub(super) async fn authorize(
    State(authorizer): State<Authorizer>,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = token(request.headers()) else { return unauthenticated(NO_TOKEN) };
    let attributes = RequestAttributes { token, path: request.uri().path(), method: request.method() };
    match authorizer.verdict(&attributes).await {
        Ok(Verdict::Allowed) => next.run(request).await,
        Ok(Verdict::Unknown) => unauthenticated(BAD_TOKEN),
        Ok(Verdict::Forbidden(user)) => forbidden(&user, &attributes),
        Err(ReviewUnavailable) => unavailable(),
    }
}

const NO_TOKEN: &str = "the request has no bearer token; send `Authorization: Bearer TOKEN`, for example with the output of \
    `kubectl create token`\n";
const BAD_TOKEN: &str = "the API server does not accept this token: it has expired, or it is for another audience or \
    another cluster\n";
const UNAVAILABLE: &str = "cannot authorize the request: the API server did not respond; retry\n";

/// Returns the bearer token of a request.
fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    (is_bearer && !token.is_empty() && token.len() <= MAX_TOKEN_LENGTH).then_some(token)
}

fn unauthenticated(message: &'static str) -> Response {
    let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"ensemble\""))];
    (StatusCode::UNAUTHORIZED, challenge, message).into_response()
}

fn forbidden(user: &str, attributes: &RequestAttributes<'_>) -> Response {
    let (path, verb) = (attributes.path, attributes.verb());
    let message = format!(
        "{user} may not {verb} {path}; bind a ClusterRole that allows this verb on this nonResourceURL, \
         ensemble-metrics-reader for example\n"
    );
    (StatusCode::FORBIDDEN, message).into_response()
}

fn unavailable() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, HeaderValue::from_static("5"))], UNAVAILABLE)
        .into_response()
}

#[cfg(test)]
mod tests;
