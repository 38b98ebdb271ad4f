//! What a reconcile can end in.

use kube::ResourceExt;
use operator_core::{ReconcileError, write::WriteError};

use crate::{
    api::NamespacePlus,
    parts::{Trouble, Troubles},
    words,
};

/// Why a NamespacePlus could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The namespace could not be made, changed, released or deleted.
    #[error(transparent)]
    Namespace(WriteError),
    /// Something inside the namespace is not as declared.
    #[error("not all in namespace {namespace} is as declared ({count} objects)")]
    Parts {
        /// The namespace.
        namespace: String,
        /// How many objects are not as declared.
        count: usize,
        /// Whether nothing but another spec can help.
        needs_other_spec: bool,
        /// The first trouble; the conditions tell of all.
        source: Box<Trouble>,
    },
    /// The status could not be written.
    #[error(transparent)]
    Status(WriteError),
}

impl Error {
    /// Made of troubles, of which there is at least one.
    pub(crate) fn of(object: &NamespacePlus, troubles: Troubles) -> Option<Self> {
        let needs_other_spec = troubles.iter().all(|trouble| matches!(trouble, Trouble::Invalid(_)));
        let count = troubles.iter().count();
        let source = Box::new(troubles.into_first()?);
        Some(Self::Parts { namespace: object.name_any(), count, needs_other_spec, source })
    }
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Namespace(_) => words::FAILED_NAMESPACE,
            Self::Parts { .. } => words::NOT_AS_DECLARED,
            Self::Status(_) => words::FAILED_STATUS,
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Parts { needs_other_spec: true, .. })
    }
}
