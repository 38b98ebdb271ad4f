//! Errors of cleanup.

use operator_core::error::status;

/// Error of one cleanup step.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// The objects of a kind could not be listed.
    #[error("cannot list {kind} objects{advice}")]
    List {
        /// Kind of the objects.
        kind: String,
        /// Remedy, or empty.
        advice: &'static str,
        /// Response of the API server.
        source: kube::Error,
    },
    /// An object could not be deleted.
    #[error("cannot delete {kind} {name}{advice}")]
    Delete {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// Remedy, or empty.
        advice: &'static str,
        /// Response of the API server.
        source: kube::Error,
    },
    /// A finalizer could not be removed.
    #[error("cannot remove finalizer {finalizer} from {kind} {object}{advice}")]
    Finalizer {
        /// Kind of the object.
        kind: String,
        /// `namespace/name`, or the name of a cluster-scoped object.
        object: String,
        /// Name of the finalizer.
        finalizer: &'static str,
        /// Remedy, or empty.
        advice: &'static str,
        /// Response of the API server.
        source: kube::Error,
    },
    /// The admission configuration was kept because it restricts permissions that are still
    /// granted.
    #[error(
        "cannot delete webhook configurations and admission policies: permissions that they restrict are still \
         granted; delete the objects that could not be deleted, and run the cleanup again"
    )]
    PermissionsRemain,
}

/// Returns the remedy for an error of the API server, as the end of a message.
pub(super) fn advice(source: &kube::Error) -> &'static str {
    let is_forbidden = status(source).is_some_and(kube::core::Status::is_forbidden);
    if is_forbidden {
        "; apply deploy/rbac/optional/cleanup.yaml, or use the kubeconfig of an administrator"
    } else {
        ""
    }
}
