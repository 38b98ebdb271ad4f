//! Errors of the API server: classification and messages.

use std::error::Error as StdError;

use kube::{Error, core::Status};

use crate::kind::ObjectKey;

/// Error of a write.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// An object with that name exists and has another owner or none. It was not modified.
    #[error(
        "{object} exists and is not owned by this object (its controller: {holder}); delete or rename it, or choose another name"
    )]
    NotOwned {
        /// Kind and key of the object.
        object: String,
        /// Kind and name of its controller, or `none`.
        holder: String,
        /// Whether that was an earlier object of the same kind and name as the owner, so that the
        /// garbage collector deletes the object.
        is_garbage: bool,
    },
    /// The API server rejected the request or did not respond.
    #[error("cannot {action} {object}")]
    Api {
        /// Operation that was attempted, such as `create`.
        action: &'static str,
        /// Kind and key of the object.
        object: String,
        /// Error of the request.
        source: kube::Error,
    },
}

impl WriteError {
    /// Returns whether the error shows that the cache is stale: the object changed, exists already,
    /// or does not exist.
    pub fn is_stale_cache(&self) -> bool {
        match self {
            Self::Api { action: "create", source, .. } => is_already_exists(source),
            Self::Api { source, .. } => is_conflict(source) || is_not_found(source),
            Self::NotOwned { .. } => false,
        }
    }

    /// Returns the error of the request, if one was sent.
    pub fn api_error(&self) -> Option<&kube::Error> {
        match self {
            Self::Api { source, .. } => Some(source),
            Self::NotOwned { .. } => None,
        }
    }
}

/// Returns an error with all its causes on one line: `outer: inner: innermost`.
///
/// Skips causes that the outer message already contains. For a response of the API server, uses its
/// message without the `Status` that kube adds.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = message(error);
    let mut cause = source(error);
    while let Some(error) = cause {
        let message = message(error);
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = source(error);
    }
    text
}

/// Returns the cause of an error. A response of the API server has none: its message is complete.
fn source<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)> {
    if api_status(error).is_some() { None } else { error.source() }
}

fn message(error: &(dyn StdError + 'static)) -> String {
    match api_status(error) {
        Some(status) if !status.message.is_empty() => status.message.clone(),
        _ => error.to_string(),
    }
}

fn api_status<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Status> {
    error.downcast_ref::<Error>().and_then(status)
}

/// Returns the status that the API server responded with, if it responded.
pub fn status(error: &Error) -> Option<&Status> {
    match error {
        Error::Api(status) => Some(status),
        _ => None,
    }
}

/// Returns whether the object does not exist (404).
pub fn is_not_found(error: &Error) -> bool {
    status(error).is_some_and(Status::is_not_found)
}

/// Returns whether the object with this key does not exist. A 404 without its name means that the
/// API server does not serve the kind.
pub(crate) fn is_object_not_found(error: &Error, key: &ObjectKey) -> bool {
    let details =
        status(error).filter(|status| status.is_not_found()).and_then(|status| status.details.as_ref());
    details.is_some_and(|details| details.name == key.name() && !details.kind.is_empty())
}

/// Returns whether the object changed since it was read (409 `Conflict`).
pub fn is_conflict(error: &Error) -> bool {
    status(error).is_some_and(Status::is_conflict)
}

/// Returns whether an object with that name exists already (409 `AlreadyExists`).
pub fn is_already_exists(error: &Error) -> bool {
    status(error).is_some_and(Status::is_already_exists)
}

/// Returns whether the API server denied the request: it is forbidden (403), for example by RBAC or
/// a quota, or invalid (422). A retry helps only after a change of the cluster or of the spec.
pub fn is_denied(error: &Error) -> bool {
    status(error).is_some_and(|status| status.is_forbidden() || status.is_invalid())
}

/// Returns whether the API server does not accept objects of the kind: its definition does not
/// exist or is being deleted. The second case has no reason of its own, so the message decides.
pub fn is_unknown_kind(error: &Error) -> bool {
    status(error).is_some_and(|status| {
        let is_terminating = || status.message.contains("custom resource definition is terminating");
        // Kubernetes 1.33 responds with 405, newer versions with 403.
        status.code == 404 || ([403, 405].contains(&status.code) && is_terminating())
    })
}

/// Returns whether a create was denied because the namespace is being deleted.
pub fn is_namespace_terminating(error: &Error) -> bool {
    status(error)
        .and_then(|status| status.details.as_ref())
        .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
}

/// Returns whether the API server was unreachable or overloaded (429, 502 to 504).
///
/// The same request can succeed later. Checks all causes of the error.
pub fn is_unavailable(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<Error>() {
            return match error {
                Error::Api(status) => matches!(status.code, 429 | 502..=504),
                Error::Service(_) | Error::HyperError(_) | Error::ReadEvents(_) => true,
                _ => false,
            };
        }
        cause = error.source();
    }
    false
}

/// Returns whether any cause of the error is a conflict.
pub(crate) fn is_conflict_within(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<Error>().is_some_and(is_conflict) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot create pod a")]
    struct Outer(#[source] Error);

    #[test]
    fn kind_is_unknown_while_its_definition_is_deleted() {
        let is_unknown = |code: u16, message: &str| {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            is_unknown_kind(&Error::Api(Box::new(status)))
        };
        let terminating = "create not allowed while custom resource definition is terminating";
        assert!(is_unknown(403, terminating) && is_unknown(405, terminating) && is_unknown(404, ""));
        assert!(
            !is_unknown(403, "create is forbidden") && !is_unknown(405, "") && !is_unknown(500, terminating)
        );
    }

    #[test]
    fn chain_uses_the_message_of_the_api_server() {
        let status = Status { message: "pods \"a\" is forbidden".into(), ..Status::default() };
        let response = Error::Api(Box::new(status));
        assert_eq!(chain(&response), "pods \"a\" is forbidden");
        let error = Outer(response);
        assert_eq!(chain(&error), "cannot create pod a: pods \"a\" is forbidden");
    }
}
