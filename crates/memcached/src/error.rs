//! Errors of the Memcached controller.

use operator_core::{
    ReconcileError,
    error::{is_denied, is_namespace_terminating},
    owner::OwnerError,
    write::WriteError,
};

use crate::reasons::{
    AWAITING_CLEANUP, DENIED, INVALID_OWNER, NAME_CONFLICT, STATUS_UPDATE_FAILED, WRITE_FAILED,
};

/// Reason why the reconcile of a Memcached failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Memcached cannot own objects.
    #[error("cannot create the child objects of the Memcached")]
    Owner(#[from] OwnerError),
    /// An object of the same name exists and has another owner. The controller did not modify it.
    #[error(transparent)]
    NameConflict(WriteError),
    /// An object still belongs to a deleted Memcached of the same name. The garbage collector
    /// deletes it.
    #[error("waiting for the garbage collector to delete the objects of a deleted Memcached of this name")]
    AwaitingCleanup(#[source] WriteError),
    /// The API server denied a write.
    #[error(
        "the API server denied the write; change the quota, the admission policy, the permission, or the spec"
    )]
    Refused(#[source] WriteError),
    /// The namespace is being deleted, and the Memcached with it.
    #[error("the namespace is being deleted")]
    NamespaceTerminating(#[source] WriteError),
    /// A write to a child object failed for another reason. The controller retries.
    #[error(transparent)]
    Write(WriteError),
    /// A write to the status failed. The controller retries.
    #[error(transparent)]
    Status(WriteError),
}

impl Error {
    /// Classifies a failed write.
    pub(crate) fn from_write(error: WriteError) -> Self {
        match error.api_error() {
            None if matches!(error, WriteError::NotOwned { is_garbage: true, .. }) => {
                Self::AwaitingCleanup(error)
            }
            None => Self::NameConflict(error),
            Some(answer) if is_namespace_terminating(answer) => Self::NamespaceTerminating(error),
            Some(answer) if is_denied(answer) => Self::Refused(error),
            Some(_) => Self::Write(error),
        }
    }

    /// Returns whether the user must act. Other errors are transient.
    pub(crate) fn needs_user_action(&self) -> bool {
        matches!(self, Self::Owner(_) | Self::NameConflict(_) | Self::Refused(_))
    }
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Owner(_) => INVALID_OWNER,
            Self::NameConflict(_) => NAME_CONFLICT,
            Self::AwaitingCleanup(_) => AWAITING_CLEANUP,
            Self::Refused(_) => DENIED,
            Self::NamespaceTerminating(_) | Self::Write(_) => WRITE_FAILED,
            Self::Status(_) => STATUS_UPDATE_FAILED,
        }
    }

    fn is_quiet(&self) -> bool {
        matches!(self, Self::AwaitingCleanup(_) | Self::NamespaceTerminating(_))
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use operator_core::error::chain;

    use super::*;

    fn answered(code: u16, message: &str) -> Error {
        let reason = if code == 403 { "Forbidden" } else { "InternalError" };
        let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
        Error::from_write(WriteError::Api {
            action: "create",
            object: "Deployment shop/web".into(),
            source: kube::Error::Api(Box::new(status)),
        })
    }

    #[test]
    fn denied_write_needs_user_action_and_keeps_server_message() {
        let refused = answered(403, "exceeded quota: tight");
        assert_eq!(refused.reason(), DENIED);
        assert!(refused.needs_user_action());
        let status = chain(&refused);
        assert!(status.ends_with("cannot create Deployment shop/web: exceeded quota: tight"), "{status}");
    }

    #[test]
    fn server_error_is_retried() {
        let failed = answered(500, "etcd is away");
        assert_eq!(failed.reason(), WRITE_FAILED);
        assert!(!failed.needs_user_action());
    }
}
