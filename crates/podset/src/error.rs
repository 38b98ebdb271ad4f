//! Errors of a reconcile, and the failures that the status reports.

use kube::core::Status;
use operator_core::{
    ReconcileError,
    error::{chain, is_namespace_terminating, status},
    owner::OwnerError,
    write::WriteError,
};

use crate::reasons;

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The PodSet cannot own Pods.
    #[error("cannot create Pods")]
    Owner(#[from] OwnerError),
    /// The template could not be decoded.
    #[error("cannot decode spec.template")]
    Template(#[from] serde_json::Error),
    /// A Pod could not be adopted or released.
    #[error(transparent)]
    Adopt(WriteError),
    /// A Pod could not be created, for example because of a quota or an admission policy.
    #[error(transparent)]
    Create(WriteError),
    /// A surplus Pod could not be deleted, or the live Pods could not be listed.
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
            Self::Adopt(_) => reasons::FAILED_ADOPT,
            Self::Template(_) | Self::Create(_) => reasons::FAILED_CREATE,
            Self::Delete(_) => reasons::FAILED_DELETE,
            Self::Status(_) => reasons::STATUS_UPDATE_FAILED,
        }
    }
}

/// Returns whether the API server rejected the request, with a status code from 400 to 499.
///
/// After any other error, or without a response, the request may have taken effect.
pub(crate) fn is_rejected(error: &WriteError) -> bool {
    error.api_error().and_then(status).is_some_and(|status| (400..500).contains(&status.code))
}

impl Error {
    /// Returns whether a Pod was refused because its namespace is being deleted. Nothing is reported.
    pub(crate) fn is_from_terminating_namespace(&self) -> bool {
        matches!(self, Self::Create(error) if error.api_error().is_some_and(is_namespace_terminating))
    }

    /// Returns the failure that the status reports.
    ///
    /// Returns `None` if the cache was stale, because the next reconcile resolves that.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let (Self::Adopt(error) | Self::Create(error) | Self::Delete(error)) = self else { return None };
        if error.is_stale_cache() {
            return None;
        }
        let message = format!("{}; {}", chain(self), self.remedy(error.api_error().and_then(status)));
        Some(Failure { reason: self.reason(), message })
    }

    fn remedy(&self, response: Option<&Status>) -> &'static str {
        match (self, response) {
            (Self::Create(_), Some(status)) if status.message.contains("exceeded quota") => {
                "raise the quota, delete objects that count against it, or lower spec.replicas"
            }
            (Self::Create(_), Some(status)) if status.is_invalid() => "correct spec.template",
            (Self::Create(_), Some(status)) if status.is_forbidden() => {
                "change spec.template, or the policy that rejects the Pod"
            }
            (_, Some(status)) if status.is_forbidden() => {
                "grant the manager the permission, or make the change with kubectl"
            }
            _ => "the controller retries with backoff",
        }
    }
}

/// Failure to create, delete, adopt, or release a Pod, as the status reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Reason of the error. `FailedCreate` and `FailedDelete` are those of the ReplicaSet controller.
    pub(crate) reason: &'static str,
    /// The error of the API server, and the remedy.
    pub(crate) message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api_error(reason: &str, code: u16, message: &str) -> WriteError {
        let status = Status { reason: reason.into(), code, message: message.into(), ..Status::default() };
        let source = kube::Error::Api(Box::new(status));
        WriteError::Api { action: "create", object: "Pod shop/web-pod-1".into(), source }
    }

    #[test]
    fn failure_has_the_server_message_and_a_remedy() {
        for (reason, code, cause, remedy) in [
            (
                "Forbidden",
                403,
                "exceeded quota: tight",
                "raise the quota, delete objects that count against it, or lower spec.replicas",
            ),
            (
                "Forbidden",
                403,
                "violates PodSecurity",
                "change spec.template, or the policy that rejects the Pod",
            ),
            ("Invalid", 422, "image: Required value", "correct spec.template"),
            ("InternalError", 500, "failed calling webhook", "the controller retries with backoff"),
        ] {
            let failure = Error::Create(api_error(reason, code, cause)).failure().unwrap();
            assert_eq!(failure.reason, "FailedCreate");
            assert_eq!(failure.message, format!("cannot create Pod shop/web-pod-1: {cause}; {remedy}"));
        }
    }

    #[test]
    fn only_client_errors_are_rejections() {
        for (code, rejected) in [(403, true), (422, true), (429, true), (500, false), (504, false)] {
            assert_eq!(is_rejected(&api_error("", code, "no")), rejected, "{code}");
        }
        let source = kube::Error::Service("connection reset".into());
        let no_response = WriteError::Api { action: "delete", object: "Pod shop/web-pod-1".into(), source };
        assert!(!is_rejected(&no_response));
    }

    #[test]
    fn conflict_with_a_stale_cache_is_not_reported() {
        assert_eq!(
            Error::Adopt(WriteError::Api {
                action: "change the owner references of",
                object: "Pod shop/stray".into(),
                source: kube::Error::Api(Box::new(Status {
                    reason: "Conflict".into(),
                    code: 409,
                    ..Status::default()
                })),
            })
            .failure(),
            None
        );
    }
}
