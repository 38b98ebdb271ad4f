//! Errors of admission and conversion reviews.

use std::{error::Error, time::Duration};

use super::{request::Operation, review::ReviewInfo};

/// Error of a handler or a conversion, such as a failed live read. For a webhook, the failure
/// policy then applies.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A review without a response. The API server applies the failure policy.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct ReviewFailure {
    /// Summary of the request, if it could be decoded.
    pub info: Option<ReviewInfo>,
    /// Cause of the failure.
    pub cause: ReviewError,
}

/// Cause of a review without a response.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The body is no valid review.
    #[error(
        "the body is no {expected} in JSON (line {line}, column {column}): send a review as the API server does"
    )]
    Malformed {
        /// Expected kind.
        expected: &'static str,
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
    },
    /// The body has another kind or version.
    #[error("expected kind {expected} of {versions}, found {found}: {advice}")]
    UnexpectedKind {
        /// Expected kind.
        expected: &'static str,
        /// Supported versions.
        versions: &'static str,
        /// Kind and version of the body.
        found: String,
        /// Remedy.
        advice: &'static str,
    },
    /// The review has no request. It can be a response.
    #[error("the {0} has no request: send a review as the API server does")]
    NoRequest(&'static str),
    /// The webhook does not review this resource or operation.
    #[error(
        "{path} reviews {reviews}, found {found}: compare the webhook configuration with deploy/webhooks"
    )]
    UnexpectedTarget {
        /// Path of the webhook.
        path: String,
        /// Targets of the webhook.
        reviews: String,
        /// Target of the review.
        found: String,
    },
    /// An object that the operation requires is missing.
    #[error("a review of {operation} requires {field}: send a review as the API server does")]
    Missing {
        /// Operation of the request.
        operation: Operation,
        /// Missing field.
        field: &'static str,
    },
    /// An object has another kind than the request.
    #[error("expected {field} of kind {expected}, found {found}: send a review as the API server does")]
    UnexpectedObject {
        /// Field of the object.
        field: &'static str,
        /// Kind of the request.
        expected: String,
        /// Kind and version of the object.
        found: String,
    },
    /// An object cannot be decoded as the type of the handler. The message contains the location,
    /// but not the value, which can be secret.
    #[error(
        "{field} does not match the schema of this version of the manager (line {line}, column {column} of it): install the CRDs of this version"
    )]
    Decode {
        /// Field of the object.
        field: &'static str,
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
    },
    /// A field is larger than any that the API server sends.
    #[error("{what} of the review has {found} bytes, but at most {limit} are allowed")]
    TooLarge {
        /// Name of the field.
        what: &'static str,
        /// Size of the field.
        found: usize,
        /// Maximum size.
        limit: usize,
    },
    /// The caches of the handler have not synced.
    #[error("the caches of the manager have not synced: try again in a few seconds")]
    NotSynced,
    /// The handler exceeded the timeout.
    #[error("the review did not finish within {0:?}: try again")]
    TimedOut(Duration),
    /// The handler returned an error.
    #[error("cannot review the request: {0}")]
    Failed(#[source] BoxError),
    /// The handler panicked.
    #[error("the review panicked, a bug of the manager: see its log for details")]
    Panicked,
    /// The response cannot be encoded as JSON.
    #[error("cannot encode the response")]
    Encode(#[source] serde_json::Error),
}

impl ReviewError {
    /// Returns whether the client caused the error.
    pub fn is_client_error(&self) -> bool {
        match self {
            Self::Malformed { .. }
            | Self::UnexpectedKind { .. }
            | Self::NoRequest(_)
            | Self::UnexpectedTarget { .. }
            | Self::Missing { .. }
            | Self::TooLarge { .. }
            | Self::Decode { .. }
            | Self::UnexpectedObject { .. } => true,
            Self::NotSynced | Self::TimedOut(_) | Self::Failed(_) | Self::Panicked | Self::Encode(_) => false,
        }
    }

    pub(super) fn malformed(expected: &'static str) -> impl Fn(serde_json::Error) -> Self {
        move |error| Self::Malformed { expected, line: error.line(), column: error.column() }
    }

    pub(super) fn decode(field: &'static str) -> impl Fn(serde_json::Error) -> Self {
        move |error| Self::Decode { field, line: error.line(), column: error.column() }
    }
}

impl From<ReviewError> for ReviewFailure {
    fn from(cause: ReviewError) -> Self {
        Self { info: None, cause }
    }
}

/// Returns kind and version for a message. Removes control characters and truncates both, because
/// the client chooses them.
pub(super) fn describe_kind(kind: &str, version: &str) -> String {
    let short = |text: &str| text.chars().filter(|one| !one.is_control()).take(64).collect::<String>();
    match (kind, version) {
        ("", "") => "an object without kind and version".to_owned(),
        (kind, version) => format!("kind {} of {}", short(kind), short(version)),
    }
}
