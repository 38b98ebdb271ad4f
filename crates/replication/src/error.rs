//! Errors of a reconcile.

use operator_core::{ReconcileError, error::chain, write::WriteError};

use crate::{
    dependencies::DependencyError,
    endpoint::EndpointError,
    gather::GatherError,
    identity::NoAccount,
    reasons::{FAILED, FINALIZER_FAILED, RECONCILE_FAILED, STATUS_UPDATE_FAILED, WRITE_FAILED},
    writer::Outcome,
};

/// Reason why a reconcile failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] pub(crate) Failure);

/// Reason why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A dependency is not Ready.
    #[error(transparent)]
    Dependency(#[from] DependencyError),
    /// Nobody can act.
    #[error(transparent)]
    Identity(#[from] NoAccount),
    /// The manager cannot learn its own user name, or act as an account.
    #[error("cannot act as {account}: {message}")]
    Impersonation {
        /// User name of the account.
        account: String,
        /// The cause.
        message: String,
    },
    /// The requests of the account cannot be sent.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The namespace of a TenantResource belongs to no Tenant.
    #[error(
        "the namespace {0} does not belong to a Tenant; create the TenantResource in a namespace of a Tenant, or \
         ask an administrator to add the namespace"
    )]
    NoTenant(String),
    /// The items could not be gathered.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// Objects could not be pruned.
    #[error("pruning of {count} resources failed: {first}; status.processedItems lists all errors")]
    Prune {
        /// Number of the objects.
        count: usize,
        /// Their first error.
        first: String,
    },
    /// Objects could not be applied.
    #[error("applying of {count} resources failed: {first}; status.processedItems lists all errors")]
    Apply {
        /// Number of the objects.
        count: usize,
        /// Their first error.
        first: String,
    },
    /// The finalizer could not be added or removed.
    #[error(transparent)]
    Finalizer(WriteError),
    /// The annotation that requests a reconcile could not be removed.
    #[error(transparent)]
    Annotation(WriteError),
    /// The status could not be written.
    #[error(transparent)]
    Status(WriteError),
}

impl Failure {
    /// Returns the message for the condition Ready. `None` if the status cannot or need not report
    /// it.
    pub(crate) fn message(&self) -> Option<String> {
        let is_write = matches!(self, Self::Finalizer(_) | Self::Annotation(_) | Self::Status(_));
        (!is_write).then(|| chain(self))
    }

    pub(crate) fn of_pruning(outcome: &Outcome) -> Option<Self> {
        let first = outcome.first_error.clone()?;
        Some(Self::Prune { count: outcome.failed, first })
    }

    pub(crate) fn of_applying(outcome: &Outcome) -> Option<Self> {
        let first = outcome.first_error.clone()?;
        Some(Self::Apply { count: outcome.failed, first })
    }
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self.0 {
            Failure::Dependency(_)
            | Failure::Identity(_)
            | Failure::Impersonation { .. }
            | Failure::Endpoint(_)
            | Failure::NoTenant(_)
            | Failure::Gather(_) => FAILED,
            Failure::Prune { .. } | Failure::Apply { .. } => RECONCILE_FAILED,
            Failure::Finalizer(_) => FINALIZER_FAILED,
            Failure::Annotation(_) => WRITE_FAILED,
            Failure::Status(_) => STATUS_UPDATE_FAILED,
        }
    }

    fn is_quiet(&self) -> bool {
        // The dependency reports its own errors. Its change triggers the next reconcile.
        matches!(self.0, Failure::Dependency(DependencyError::NotReady(_) | DependencyError::Missing(_)))
    }
}
