//! Who may do what on the metrics server, as the API server says.

mod answers;
mod judge;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use answers::{Answers, Question};
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

/// How many requests the API server is asked about at once. Strangers can make it busy with no more than these.
const AT_ONCE: usize = 4;
/// How long a request waits for the API server's word.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer tokens are refused unread.
const LONGEST_TOKEN: usize = 16 << 10;

/// Asks the API server about tokens and remembers what it said. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(super) struct Access {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    answers: Mutex<Answers>,
    at_once: Semaphore,
    /// Whether the API server could be asked the last time, so that each turn is told once.
    away: Mutex<bool>,
}

/// What the API server says about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may pass.
    Allowed,
    /// The token is nobody's.
    Unknown,
    /// The token is this user's, who may not.
    Forbidden(String),
}

/// The API server could not be asked in time.
#[derive(Debug)]
struct Unanswered;

impl Access {
    pub(super) fn new(client: Client) -> Self {
        let shared = Shared {
            client,
            answers: Mutex::default(),
            at_once: Semaphore::new(AT_ONCE),
            away: Mutex::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    async fn verdict(&self, question: &Question<'_>) -> Result<Verdict, Unanswered> {
        if let Some(known) = self.known(question) {
            return Ok(known);
        }
        timeout(PATIENCE, self.ask_in_turn(question)).await.unwrap_or_else(|_| {
            self.told("no answer in time");
            Err(Unanswered)
        })
    }

    fn known(&self, question: &Question<'_>) -> Option<Verdict> {
        self.shared.answers.lock().get(&question.key(), Instant::now())
    }

    async fn ask_in_turn(&self, question: &Question<'_>) -> Result<Verdict, Unanswered> {
        let _turn = self.shared.at_once.acquire().await.map_err(|_| Unanswered)?;
        // Somebody else may have asked the same while this one waited.
        if let Some(known) = self.known(question) {
            return Ok(known);
        }
        let verdict = self.ask(question).await.map_err(|error| {
            self.told(&chain(&error));
            Unanswered
        })?;
        *self.shared.away.lock() = false;
        self.shared.answers.lock().keep(question.key(), verdict.clone(), Instant::now());
        Ok(verdict)
    }

    async fn ask(&self, question: &Question<'_>) -> kube::Result<Verdict> {
        let spec = TokenReviewSpec { token: question.token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = self.api().create(&PostParams::default(), &review).await?;
        let Some(user) = judge::user(review.status) else { return Ok(Verdict::Unknown) };
        let name = user.username.clone().unwrap_or_default();
        let review = judge::review(user, question.path, &question.verb());
        let review: SubjectAccessReview = self.api().create(&PostParams::default(), &review).await?;
        Ok(if judge::may(review.status) { Verdict::Allowed } else { Verdict::Forbidden(name) })
    }

    fn api<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.shared.client.clone())
    }

    /// Says once that the API server cannot be asked.
    fn told(&self, error: &str) {
        if !std::mem::replace(&mut *self.shared.away.lock(), true) {
            warn!(
                error,
                "the API server cannot be asked who may see the metrics; requests are answered with 503"
            );
        }
    }
}

/// Lets a request pass if the API server says that its user may.
pub(super) async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    let Some(token) = token(request.headers()) else { return unauthenticated(NO_TOKEN) };
    let question = Question { token, path: request.uri().path(), method: request.method() };
    match access.verdict(&question).await {
        Ok(Verdict::Allowed) => next.run(request).await,
        Ok(Verdict::Unknown) => unauthenticated(BAD_TOKEN),
        Ok(Verdict::Forbidden(user)) => forbidden(&user, &question),
        Err(Unanswered) => unanswered(),
    }
}

const NO_TOKEN: &str = "this needs a bearer token: send `Authorization: Bearer TOKEN`, for example with the output of \
    `kubectl create token`\n";
const BAD_TOKEN: &str = "the API server does not know this token: it may have expired, or be for another audience or \
    another cluster\n";
const UNANSWERED: &str = "the API server could not be asked whether this token may pass; try again\n";

/// The token of a request, if it has one that can be one.
fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    (is_bearer && !token.is_empty() && token.len() <= LONGEST_TOKEN).then_some(token)
}

fn unauthenticated(why: &'static str) -> Response {
    let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"ensemble\""))];
    (StatusCode::UNAUTHORIZED, challenge, why).into_response()
}

fn forbidden(user: &str, question: &Question<'_>) -> Response {
    let (path, verb) = (question.path, question.verb());
    let why = format!(
        "{user} may not {verb} {path}; bind a ClusterRole that allows this verb on this nonResourceURL, \
         ensemble-metrics-reader for example\n"
    );
    (StatusCode::FORBIDDEN, why).into_response()
}

fn unanswered() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, HeaderValue::from_static("5"))], UNANSWERED)
        .into_response()
}

#[cfg(test)]
mod tests;
