//! Errors of the NamespacePlus controller.

use kube::ResourceExt;
use operator_core::{ReconcileError, write::WriteError};

use crate::{
    api::NamespacePlus,
    contents::{Failure, Failures},
    reasons,
};

/// Reason why the reconcile of a NamespacePlus failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The namespace could not be created, updated, released, or deleted.
    #[error(transparent)]
    Namespace(WriteError),
    /// An object in the namespace could not be reconciled.
    #[error("cannot reconcile {count} objects in namespace {namespace}")]
    Contents {
        /// The namespace.
        namespace: String,
        /// Number of objects that failed.
        count: usize,
        /// Whether only a change of the spec can help.
        needs_other_spec: bool,
        /// The first failure. The conditions list all.
        source: Box<Failure>,
    },
    /// The status could not be written.
    #[error(transparent)]
    Status(WriteError),
}

impl Error {
    /// Creates an error from the failures, or returns `None` if there are none.
    pub(crate) fn of(object: &NamespacePlus, failures: Failures) -> Option<Self> {
        let needs_other_spec = failures.iter().all(|failure| matches!(failure, Failure::Invalid(_)));
        let count = failures.iter().count();
        let source = Box::new(failures.into_most_relevant()?);
        Some(Self::Contents { namespace: object.name_any(), count, needs_other_spec, source })
    }
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Namespace(_) => reasons::WRITE_FAILED,
            Self::Contents { .. } => reasons::RECONCILE_FAILED,
            Self::Status(_) => reasons::STATUS_UPDATE_FAILED,
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Contents { needs_other_spec: true, .. })
    }
}
