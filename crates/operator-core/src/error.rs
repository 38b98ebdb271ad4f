//! What can go wrong between a controller and the API server, and how it is told.

use std::error::Error as StdError;

use kube::{Error, core::Status};

use crate::kind::ObjectKey;

/// An error with all that lies beneath it, in one line: `outer: inner: innermost`.
///
/// Causes that the outer error already spells out are not repeated. An answer of the API server is given in
/// its own words, without the `Status` around them that kube prints.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = words(error);
    let mut cause = beneath(error);
    while let Some(error) = cause {
        let message = words(error);
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = beneath(error);
    }
    text
}

/// What lies beneath an error; nothing beneath an answer, for that is complete.
fn beneath<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)> {
    if answer(error).is_some() { None } else { error.source() }
}

fn words(error: &(dyn StdError + 'static)) -> String {
    match answer(error) {
        Some(status) if !status.message.is_empty() => status.message.clone(),
        _ => error.to_string(),
    }
}

fn answer<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Status> {
    error.downcast_ref::<Error>().and_then(status)
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

/// Whether the API server said that the object of this key does not exist. Other answers with the same code say that it
/// does not serve the kind.
pub(crate) fn is_missing(error: &Error, key: &ObjectKey) -> bool {
    let details =
        status(error).filter(|status| status.is_not_found()).and_then(|status| status.details.as_ref());
    details.is_some_and(|details| details.name == key.name() && !details.kind.is_empty())
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

/// Whether the API server takes no objects of the kind at present: its definition is gone, or on its way. The latter has no
/// reason of its own.
pub fn is_undefined(error: &Error) -> bool {
    status(error).is_some_and(|status| {
        let is_leaving = || status.message.contains("custom resource definition is terminating");
        status.code == 404 || (status.is_forbidden() && is_leaving())
    })
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
                Error::Api(status) => matches!(status.code, 429 | 502..=504),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot create pod a")]
    struct Outer(#[source] Error);

    #[test]
    fn an_answer_is_told_in_the_servers_own_words() {
        let status = Status { message: "pods \"a\" is forbidden".into(), ..Status::default() };
        let answer = Error::Api(Box::new(status));
        assert_eq!(chain(&answer), "pods \"a\" is forbidden");
        let error = Outer(answer);
        assert_eq!(chain(&error), "cannot create pod a: pods \"a\" is forbidden");
    }
}
