//! What can go wrong between a controller and the API server, and how it is told.

use std::error::Error as StdError;

use kube::{Error, core::Status};

/// An error with all that lies beneath it, in one line: `outer: inner: innermost`.
///
/// Causes that the outer error already spells out are not repeated.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

/// The API server's answer, if the error is one.
pub fn status(error: &Error) -> Option<&Status> {
    match error {
        Error::Api(status) => Some(status),
        _ => None,
    }
}

/// Whether the API server said that there is no such object.
pub fn is_not_found(error: &Error) -> bool {
    status(error).is_some_and(Status::is_not_found)
}

/// Whether the API server refused because the object changed in between.
pub fn is_conflict(error: &Error) -> bool {
    status(error).is_some_and(Status::is_conflict)
}

/// Whether the API server refused because an object of that name is there.
pub fn is_already_exists(error: &Error) -> bool {
    status(error).is_some_and(Status::is_already_exists)
}

/// Whether the API server understood and refused: not allowed, over quota, or not valid. Only a change of
/// the cluster or of the spec helps.
pub fn is_refusal(error: &Error) -> bool {
    status(error).is_some_and(|status| status.is_forbidden() || status.is_invalid())
}

/// Whether a create was refused because the namespace is being deleted.
pub fn is_namespace_terminating(error: &Error) -> bool {
    status(error)
        .and_then(|status| status.details.as_ref())
        .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
}

/// Whether the API server could not be reached or was not able to answer: nothing is wrong with what was
/// asked, and the same request will do once the server is back. Looks at all that lies beneath the error.
pub fn is_unavailable(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<Error>() {
            return match error {
                Error::Api(status) => status.code >= 500 || status.code == 429,
                Error::Service(_) | Error::HyperError(_) | Error::ReadEvents(_) => true,
                _ => false,
            };
        }
        cause = error.source();
    }
    false
}

/// Whether a conflict lies anywhere beneath the error.
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
