//! What can go wrong when a cluster is let go of.

use operator_core::error::status;

/// Why something was not let go of.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The objects of a kind could not be listed.
    #[error("cannot list {kind} objects{advice}")]
    List {
        /// The kind.
        kind: String,
        /// What a person can do.
        advice: &'static str,
        /// The API server's answer.
        source: kube::Error,
    },
    /// An object could not be deleted.
    #[error("cannot delete the {kind} {name}{advice}")]
    Delete {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What a person can do.
        advice: &'static str,
        /// The API server's answer.
        source: kube::Error,
    },
    /// A finalizer could not be taken off.
    #[error("cannot take the finalizer {finalizer} off the {kind} {object}{advice}")]
    Finalizer {
        /// The object's kind.
        kind: String,
        /// `namespace/name`, or the name of an object in no namespace.
        object: String,
        /// The finalizer.
        finalizer: &'static str,
        /// What a person can do.
        advice: &'static str,
        /// The API server's answer.
        source: kube::Error,
    },
    /// The webhooks have to stay, for people still have rights that they watch over.
    #[error(
        "the webhook configurations and policies stay: rights are still granted that they watch over; delete what \
         could not be deleted, and do this again"
    )]
    Unwatched,
}

/// What to do about an answer.
pub(super) fn advice(source: &kube::Error) -> &'static str {
    let is_forbidden = status(source).is_some_and(kube::core::Status::is_forbidden);
    if is_forbidden {
        "; apply deploy/rbac/optional/release.yaml, or do this with the kubeconfig of an administrator"
    } else {
        ""
    }
}
