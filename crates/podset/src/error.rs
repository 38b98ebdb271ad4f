//! What can stand in the way of a PodSet, and what a person can do about it.

use kube::core::Status;
use operator_core::{
    ReconcileError,
    error::{chain, is_namespace_terminating, status},
    owner::OwnerError,
    write::WriteError,
};

use crate::reasons;

/// Why a PodSet could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The PodSet cannot own pods.
    #[error("cannot make pods")]
    Owner(#[from] OwnerError),
    /// A pod could not be adopted or released.
    #[error(transparent)]
    Claim(WriteError),
    /// A pod could not be made; a quota or an admission policy may stand against it.
    #[error(transparent)]
    Create(WriteError),
    /// A surplus pod could not be deleted, or it could not be found out whether one was.
    #[error(transparent)]
    Delete(WriteError),
    /// The status could not be written.
    #[error(transparent)]
    Status(WriteError),
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Owner(_) => reasons::INVALID_OWNER,
            Self::Claim(_) => reasons::FAILED_ADOPT,
            Self::Create(_) => reasons::FAILED_CREATE,
            Self::Delete(_) => reasons::FAILED_DELETE,
            Self::Status(_) => reasons::STATUS_UPDATE_FAILED,
        }
    }
}

/// Whether the API server has answered that it did not do what it was asked for: with any code from 400 to 499.
/// Without an answer, and with other codes, it may have done it all the same.
pub(crate) fn is_declined(error: &WriteError) -> bool {
    error.answer().and_then(status).is_some_and(|status| (400..500).contains(&status.code))
}

impl Error {
    /// Whether a pod was refused because its namespace is on the way out: nothing is left to do or to tell.
    pub(crate) fn is_end_of_namespace(&self) -> bool {
        matches!(self, Self::Create(error) if error.answer().is_some_and(is_namespace_terminating))
    }

    /// What the PodSet's status is to say. Nothing when the cache was merely behind: the next reconcile settles that.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let (Self::Claim(error) | Self::Create(error) | Self::Delete(error)) = self else { return None };
        if error.shows_stale_cache() {
            return None;
        }
        let message = format!("{}; {}", chain(self), self.advice(error.answer().and_then(status)));
        Some(Trouble { reason: self.reason(), message })
    }

    fn advice(&self, answer: Option<&Status>) -> &'static str {
        match (self, answer) {
            (Self::Create(_), Some(answer)) if answer.message.contains("exceeded quota") => {
                "raise the quota, free some of it, or lower spec.replicas"
            }
            (Self::Create(_), Some(answer)) if answer.is_invalid() => "correct spec.template",
            (Self::Create(_), Some(answer)) if answer.is_forbidden() => {
                "change spec.template so that such pods are let in, or what refuses them"
            }
            (_, Some(answer)) if answer.is_forbidden() => {
                "let the manager do that, or do it yourself with kubectl"
            }
            _ => "it is tried again with growing pauses",
        }
    }
}

/// Something that keeps a PodSet from what its spec asks, as its status tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The reason of the error; `FailedCreate` and `FailedDelete` are a ReplicaSet's words.
    pub(crate) reason: &'static str,
    /// What went wrong, in the API server's words, and what a person can do.
    pub(crate) message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reason: &str, code: u16, message: &str) -> WriteError {
        let status = Status { reason: reason.into(), code, message: message.into(), ..Status::default() };
        let source = kube::Error::Api(Box::new(status));
        WriteError::Api { action: "create", object: "Pod shop/web-pod-1".into(), source }
    }

    #[test]
    fn trouble_is_told_in_the_servers_words_with_what_to_do() {
        for (reason, code, words, advice) in [
            (
                "Forbidden",
                403,
                "exceeded quota: tight",
                "raise the quota, free some of it, or lower spec.replicas",
            ),
            (
                "Forbidden",
                403,
                "violates PodSecurity",
                "change spec.template so that such pods are let in, or what refuses them",
            ),
            ("Invalid", 422, "image: Required value", "correct spec.template"),
            ("InternalError", 500, "failed calling webhook", "it is tried again with growing pauses"),
        ] {
            let trouble = Error::Create(refused(reason, code, words)).trouble().unwrap();
            assert_eq!(trouble.reason, "FailedCreate");
            assert_eq!(trouble.message, format!("cannot create Pod shop/web-pod-1: {words}; {advice}"));
        }
    }

    #[test]
    fn what_was_declined_did_not_happen_and_anything_else_may_have() {
        for (code, declined) in [(403, true), (422, true), (429, true), (500, false), (504, false)] {
            assert_eq!(is_declined(&refused("", code, "no")), declined, "{code}");
        }
        let source = kube::Error::Service("the connection is cut".into());
        let cut = WriteError::Api { action: "delete", object: "Pod shop/web-pod-1".into(), source };
        assert!(!is_declined(&cut));
    }

    #[test]
    fn a_cache_that_was_behind_is_no_trouble() {
        assert_eq!(
            Error::Claim(WriteError::Api {
                action: "change the owner references of",
                object: "Pod shop/stray".into(),
                source: kube::Error::Api(Box::new(Status {
                    reason: "Conflict".into(),
                    code: 409,
                    ..Status::default()
                })),
            })
            .trouble(),
            None
        );
    }
}
