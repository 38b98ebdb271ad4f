//! One webhook at work: from the bytes of a review to the bytes of its answer.

use std::{fmt, panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use k8s_openapi::ByteString;
use tokio::time::timeout;

use super::{
    caches::{Caches, SyncedInformers},
    handler::{BoxError, Given, Handle},
    request::Operation,
    review::{API_VERSION, Header, KIND, Reply, RequestInfo, Response, Review, Status},
    target::{TargetRule, resource},
    verdict::Denial,
    webhook::{Webhook, WebhookType},
};
use crate::{environment::Environment, metrics::ReviewResult};

/// How long a review waits for caches that are not filled yet.
const FILL: Duration = Duration::from_secs(2);
/// By how much an answer is earlier than the API server's patience ends.
const MARGIN: Duration = Duration::from_millis(500);

/// The longest name of a user. It is in log lines and messages.
const LONGEST_USER: usize = 4096;

/// A webhook of a controller, wired to the caches of a process.
pub struct Endpoint {
    webhook: Webhook,
    path: String,
    handler: Box<dyn Handle>,
    synced: SyncedInformers,
}

/// What a review was about. Holds nothing of the object itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewInfo {
    /// The review's id: the API server's own, told apart from all others.
    pub uid: String,
    /// Who asks, by name.
    pub user: String,
    /// What is to be done.
    pub operation: Operation,
    /// Plural, subresource, group and version.
    pub resource: String,
    /// The namespace of the object.
    pub namespace: Option<String>,
    /// The name of the object; empty if the API server is to make one up.
    pub name: String,
    /// Whether nothing will be stored anyway.
    pub dry_run: bool,
}

impl fmt::Display for ReviewInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_ref().map_or_else(String::new, |name| format!("{name}/"));
        write!(f, "{} of {} {namespace}{}", self.operation, self.resource, self.name)
    }
}

/// A review that was answered.
#[derive(Debug)]
pub struct ReviewResponse {
    /// The `AdmissionReview` to send back, as JSON.
    pub body: Vec<u8>,
    /// What it was about.
    pub about: ReviewInfo,
    /// What was answered.
    pub ended: ReviewResult,
    /// Why it was refused, if it was.
    pub denial: Option<Denial>,
}

/// A review that was not answered. The API server goes by the failure policy then.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct ReviewFailure {
    /// What it was about, if that could be read.
    pub about: Option<ReviewInfo>,
    /// Why.
    pub cause: ReviewError,
}

/// Why a review was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// It cannot be read as a review at all.
    #[error(
        "the body is no {expected} in JSON (line {line}, column {column}): send what the API server sends"
    )]
    Malformed {
        /// What it should be.
        expected: &'static str,
        /// Where reading ended.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// It is an object of another kind or version.
    #[error("expected kind {expected} of {versions}, found {found}: {advice}")]
    OtherKind {
        /// The kind it should be.
        expected: &'static str,
        /// The versions that are understood.
        versions: &'static str,
        /// Kind and version that it is.
        found: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// It is a review without a request: an answer, for example.
    #[error("the {0} has no request: send what the API server sends")]
    NoRequest(&'static str),
    /// It is about something that this webhook does not review.
    #[error(
        "{path} reviews {reviews}; this is {found}: compare the webhook configuration with deploy/webhooks"
    )]
    NotForThis {
        /// The webhook's path.
        path: String,
        /// What the webhook reviews.
        reviews: String,
        /// What the review is about.
        found: String,
    },
    /// An object that the operation needs is missing.
    #[error("a review of {operation} needs {field}: send what the API server sends")]
    Missing {
        /// The operation.
        operation: Operation,
        /// The field that is missing.
        field: &'static str,
    },
    /// An object is of another kind than the review says.
    #[error("expected {field} of kind {expected}, found {found}: send what the API server sends")]
    WrongObject {
        /// The field that holds the object.
        field: &'static str,
        /// The kind that the review says.
        expected: String,
        /// Kind and version of the object.
        found: String,
    },
    /// An object cannot be read as the handler's type. Where is told, what stands there is not.
    #[error(
        "{field} is not as this version of the manager knows the kind (line {line}, column {column} of it): install the definitions of this version"
    )]
    Unreadable {
        /// The field that holds the object.
        field: &'static str,
        /// Where reading ended.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// It holds more than the API server ever sends.
    #[error("{what} of the review has {found} bytes, and may have at most {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The largest.
        limit: usize,
    },
    /// The caches that the handler answers from are not filled yet.
    #[error("the manager has just started and does not know the cluster yet: try again in a few seconds")]
    NotFilled,
    /// The handler took too long.
    #[error("the review was not done within {0:?}: try again")]
    TooSlow(Duration),
    /// The handler could not find out what it needs to know.
    #[error("the review could not be done: {0}")]
    Failed(#[source] BoxError),
    /// The handler panicked: a bug.
    #[error("the review failed by a bug of the manager; its log says more")]
    Panicked,
    /// What was to be answered cannot be written as JSON: a bug.
    #[error("the answer cannot be written")]
    Unwritable(#[source] serde_json::Error),
}

impl ReviewError {
    /// Whether whoever sent the review did something wrong, rather than this process.
    pub fn is_senders(&self) -> bool {
        use ReviewError::{
            Malformed, Missing, NoRequest, NotForThis, OtherKind, TooLarge, Unreadable, WrongObject,
        };
        matches!(
            self,
            Malformed { .. }
                | OtherKind { .. }
                | NoRequest(_)
                | NotForThis { .. }
                | Missing { .. }
                | TooLarge { .. }
                | Unreadable { .. }
                | WrongObject { .. }
        )
    }

    pub(super) fn malformed(expected: &'static str) -> impl Fn(serde_json::Error) -> Self {
        move |error| Self::Malformed { expected, line: error.line(), column: error.column() }
    }
}

impl From<ReviewError> for ReviewFailure {
    fn from(cause: ReviewError) -> Self {
        Self { about: None, cause }
    }
}

impl Endpoint {
    /// Wires a webhook of a controller of this name. Must be called within a Tokio runtime.
    pub fn build(webhook: Webhook, controller: &str, environment: &Environment) -> Self {
        let mut caches = Caches::new(environment, controller, webhook.side_effects);
        let handler = (webhook.wire)(&mut caches);
        Self { path: webhook.path(controller), handler, synced: caches.into_synced(), webhook }
    }

    /// The path that it is served at.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns how many times the objects of a review are held at once, parsed, while it is answered.
    pub fn copies(&self) -> usize {
        match self.webhook.purpose {
            WebhookType::Validating => 1,
            // As it came, before and after the change, as types and as JSON.
            WebhookType::Mutating => 4,
        }
    }

    /// Answers a review.
    ///
    /// # Errors
    /// When it makes no sense, or no answer was found. Never an answer by mistake.
    pub async fn answer(&self, body: &[u8]) -> Result<ReviewResponse, ReviewFailure> {
        let asked = parse(body)?;
        let about = about(&asked);
        match self.review(&asked).await.and_then(|given| answered(&asked, given)) {
            Ok((body, ended, denial)) => Ok(ReviewResponse { body, about, ended, denial }),
            Err(cause) => Err(ReviewFailure { about: Some(about), cause }),
        }
    }

    async fn review(&self, asked: &RequestInfo<'_>) -> Result<Given, ReviewError> {
        self.check(asked)?;
        timeout(FILL, self.synced.wait()).await.map_err(|_| ReviewError::NotFilled)?;
        let patience = Duration::from_secs(self.webhook.timeout_seconds.into()).saturating_sub(MARGIN);
        let handled = AssertUnwindSafe(self.handler.handle(asked)).catch_unwind();
        match timeout(patience, handled).await {
            Err(_) => Err(ReviewError::TooSlow(patience)),
            Ok(Err(_)) => Err(ReviewError::Panicked),
            Ok(Ok(given)) => given,
        }
    }

    /// Whether the review is one that this webhook was declared for, with the objects that belong to it.
    fn check(&self, asked: &RequestInfo<'_>) -> Result<(), ReviewError> {
        if !self.webhook.targets.iter().any(|target| matches(target, asked)) {
            let reviews: Vec<_> = self.webhook.targets.iter().map(TargetRule::describe).collect();
            let found = format!("{} of {} (kind {})", asked.operation, resource_of(asked), asked.kind.name);
            return Err(ReviewError::NotForThis {
                path: self.path.clone(),
                reviews: reviews.join("; "),
                found,
            });
        }
        check_objects(asked)
    }
}

fn parse(body: &[u8]) -> Result<RequestInfo<'_>, ReviewError> {
    let header: Header = serde_json::from_slice(body).map_err(ReviewError::malformed(KIND))?;
    if header.kind != KIND || header.api_version != API_VERSION {
        return Err(ReviewError::OtherKind {
            expected: KIND,
            versions: API_VERSION,
            found: found(&header.kind, &header.api_version),
            advice: "list v1 in admissionReviewVersions of the webhook configuration",
        });
    }
    let review: Review<'_> = serde_json::from_slice(body).map_err(ReviewError::malformed(KIND))?;
    let asked = review.request.ok_or(ReviewError::NoRequest(KIND))?;
    let user = asked.user_info.username.as_ref().map_or(0, String::len);
    if user > LONGEST_USER {
        return Err(ReviewError::TooLarge { what: "userInfo.username", found: user, limit: LONGEST_USER });
    }
    Ok(asked)
}

/// Kind and version for people; what strangers send is not repeated at length.
pub(super) fn found(kind: &str, version: &str) -> String {
    let short = |text: &str| text.chars().filter(|one| !one.is_control()).take(64).collect::<String>();
    match (kind, version) {
        ("", "") => "an object without kind and version".to_owned(),
        (kind, version) => format!("kind {} of {}", short(kind), short(version)),
    }
}

fn matches(target: &TargetRule, asked: &RequestInfo<'_>) -> bool {
    let is = |wanted: &str, given: &str| wanted == "*" || wanted == given;
    target.operations.contains(asked.operation)
        && is(&target.group, &asked.resource.group)
        && is(&target.version, &asked.resource.version)
        && is(&target.resource, &asked.resource.name)
        && target.subresource.as_deref() == asked.subresource()
        && target.kind.as_ref().is_none_or(|kind| {
            *kind == asked.kind.name
                && is(&target.group, &asked.kind.group)
                && is(&target.version, &asked.kind.version)
        })
}

/// Whether the objects are there that the operation needs, each of the kind that the review says.
fn check_objects(asked: &RequestInfo<'_>) -> Result<(), ReviewError> {
    use Operation::{Connect, Create, Delete, Update};
    let needs_new = matches!(asked.operation, Create | Update | Connect);
    let needs_old = matches!(asked.operation, Update | Delete);
    for (field, needed, object) in
        [("object", needs_new, asked.object), ("oldObject", needs_old, asked.old_object)]
    {
        if !needed {
            continue;
        }
        let object = object.ok_or(ReviewError::Missing { operation: asked.operation, field })?;
        let header: Header = serde_json::from_str(object.get()).map_err(|error| ReviewError::Unreadable {
            field,
            line: error.line(),
            column: error.column(),
        })?;
        if !header.kind.is_empty() && header.kind != asked.kind.name {
            return Err(ReviewError::WrongObject {
                field,
                expected: asked.kind.name.clone(),
                found: found(&header.kind, &header.api_version),
            });
        }
    }
    Ok(())
}

fn resource_of(asked: &RequestInfo<'_>) -> String {
    let name = match asked.subresource() {
        Some(subresource) => format!("{}/{subresource}", asked.resource.name),
        None => asked.resource.name.clone(),
    };
    resource(&name, &asked.resource.group, &asked.resource.version)
}

fn about(asked: &RequestInfo<'_>) -> ReviewInfo {
    ReviewInfo {
        uid: asked.uid.clone(),
        user: asked.user_info.username.clone().unwrap_or_default(),
        operation: asked.operation,
        resource: resource_of(asked),
        namespace: asked.namespace.clone().filter(|namespace| !namespace.is_empty()),
        name: asked.name.clone().unwrap_or_default(),
        dry_run: asked.dry_run.unwrap_or_default(),
    }
}

/// The answer as it is sent, and what it says.
fn answered(
    asked: &RequestInfo<'_>,
    given: Given,
) -> Result<(Vec<u8>, ReviewResult, Option<Denial>), ReviewError> {
    let Given { verdict, patch } = given;
    let patch = patch.filter(|_| verdict.denial.is_none());
    let ended = match (&verdict.denial, &patch) {
        (Some(_), _) => ReviewResult::Denied,
        (None, Some(_)) => ReviewResult::Changed,
        (None, None) => ReviewResult::Allowed,
    };
    let patch = patch.map(|patch| serde_json::to_vec(&patch)).transpose().map_err(ReviewError::Unwritable)?;
    let status = verdict.denial.as_ref().map(|denial| Status {
        outcome: "Failure",
        code: denial.reason.code(),
        reason: denial.reason.name(),
        message: &denial.message,
    });
    let response = Response {
        uid: &asked.uid,
        allowed: verdict.denial.is_none(),
        status,
        patch_type: patch.is_some().then_some("JSONPatch"),
        patch: patch.map(ByteString),
        warnings: &verdict.warnings,
    };
    let reply = Reply { api_version: API_VERSION, kind: KIND, response };
    Ok((serde_json::to_vec(&reply).map_err(ReviewError::Unwritable)?, ended, verdict.denial))
}

#[cfg(test)]
mod tests;
