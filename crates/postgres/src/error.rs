//! Errors of the PostgresCluster controller.

use certificates::IssueError;
use operator_core::{
    ReconcileError,
    error::{is_denied, is_namespace_terminating},
    owner::OwnerError,
    write::WriteError,
};

use crate::{
    reasons::{
        AWAITING_CLEANUP, CERTIFICATES_FAILED, DELETING, DENIED, FINALIZER_FAILED, INVALID_OWNER,
        INVALID_PASSWORD, NAME_CONFLICT, STATUS_UPDATE_FAILED, WRITE_FAILED,
    },
    status_client::ClientError,
};

/// Reason why the reconcile of a PostgresCluster failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The PostgresCluster cannot own objects.
    #[error("cannot create the child objects of the PostgresCluster")]
    Owner(#[from] OwnerError),
    /// An object of the same name exists and has another owner. The controller did not modify it.
    #[error(transparent)]
    NameConflict(WriteError),
    /// An object still belongs to a deleted PostgresCluster of the same name. The garbage collector
    /// deletes it.
    #[error(
        "waiting for the garbage collector to delete the objects of a deleted PostgresCluster of this name"
    )]
    AwaitingCleanup(#[source] WriteError),
    /// The API server denied a write.
    #[error(
        "the API server denied the write; change the quota, the admission policy, the permission, or the spec"
    )]
    Denied(#[source] WriteError),
    /// The cluster was deleted, and the cache does not show it yet. Nothing is created for it.
    #[error(
        "cannot create objects for the {0}: it was deleted, or is being deleted, and the cache does not show it yet; the controller goes on when the watch reports it"
    )]
    Deleted(String),
    /// The namespace is being deleted, and the PostgresCluster with it.
    #[error("the namespace is being deleted")]
    NamespaceTerminating(#[source] WriteError),
    /// A write failed for another reason. The controller retries.
    #[error(transparent)]
    Write(WriteError),
    /// A Secret was created or changed by somebody else meanwhile. The controller retries.
    #[error("the Secret {0} was created by another client meanwhile")]
    SecretChanged(String),
    /// The Secret of the authority does not hold an authority with its key.
    #[error(
        "the Secret {0} holds no certificate authority with its private key; delete it, and all certificates of the cluster are issued again"
    )]
    InvalidAuthority(String),
    /// A password cannot be created.
    #[error("cannot create a password: the source of random numbers failed")]
    Random,
    /// The Secret that a role of the spec names holds no password.
    #[error(
        "the Secret {secret}, which spec.roles names for the role {role}, does not exist, or has no key password; create it"
    )]
    MissingPassword {
        /// Namespace and name of the Secret.
        secret: String,
        /// Name of the role.
        role: String,
    },
    /// The password in a Secret cannot be used.
    #[error(
        "the password in the Secret {0} must be text of at most 256 bytes without control characters; change it"
    )]
    InvalidPassword(String),
    /// A certificate cannot be issued.
    #[error("cannot issue the certificates of the cluster")]
    Certificate(#[from] IssueError),
    /// The certificates that were issued cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The finalizer could not be added or removed. The controller retries.
    #[error(transparent)]
    Finalizer(WriteError),
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
            Some(answer) if is_denied(answer) => Self::Denied(error),
            Some(_) => Self::Write(error),
        }
    }
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Owner(_) => INVALID_OWNER,
            Self::NameConflict(_) => NAME_CONFLICT,
            Self::AwaitingCleanup(_) => AWAITING_CLEANUP,
            Self::Denied(_) => DENIED,
            Self::Deleted(_) => DELETING,
            Self::NamespaceTerminating(_) | Self::Write(_) | Self::SecretChanged(_) | Self::Random => {
                WRITE_FAILED
            }
            Self::InvalidPassword(_) | Self::MissingPassword { .. } => INVALID_PASSWORD,
            Self::InvalidAuthority(_) | Self::Certificate(_) | Self::Client(_) => CERTIFICATES_FAILED,
            Self::Finalizer(_) => FINALIZER_FAILED,
            Self::Status(_) => STATUS_UPDATE_FAILED,
        }
    }

    fn is_quiet(&self) -> bool {
        matches!(
            self,
            Self::AwaitingCleanup(_)
                | Self::Deleted(_)
                | Self::NamespaceTerminating(_)
                | Self::SecretChanged(_)
        )
    }
}
