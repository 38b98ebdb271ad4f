//! Failures of a reconcile of a Tenant or of the configuration. A failure does not stop the other
//! steps, so there can be several.

use std::{error::Error, fmt};

use capsule::owners::OwnerError;
use operator_core::{
    error::{chain, is_conflict, is_namespace_terminating, is_unavailable, status},
    write::WriteError,
};

use crate::{namespace_metadata::MetadataError, quota::QuotaError, shared_quotas::ObjectQuotaError};

/// Limit of failures in a message.
const MAX_LISTED_FAILURES: usize = 8;

/// Failure of one step.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An owner is invalid.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// An entry of additional metadata is invalid.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A quota cannot be divided.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// An annotation defines no quota.
    #[error(transparent)]
    ObjectQuota(#[from] ObjectQuotaError),
    /// An object could not be created, updated, or deleted.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The manager is not allowed to bind a ClusterRole.
    #[error(
        "the manager may not bind the ClusterRole {role}; grant the manager the verb \"bind\" on that ClusterRole"
    )]
    BindForbidden {
        /// Name of the ClusterRole.
        role: String,
        /// Answer of the API server.
        source: WriteError,
    },
    /// The configuration has a pattern that is valid for the API server and invalid for this
    /// manager.
    #[error("{0}")]
    Pattern(String),
    /// Two ClusterRoles with different permissions have the same name.
    #[error(
        "spec.rbac: provisioner and deleter are both {name:?}; they grant different permissions and need two names"
    )]
    DuplicateRoleName {
        /// The name.
        name: String,
    },
    /// The manager is not allowed to manage a ClusterRole or its ClusterRoleBinding.
    #[error(
        "the manager may not manage this object; it is allowed to manage the default names, and for another name it \
         needs the verbs update and delete on the object"
    )]
    RbacForbidden(#[source] WriteError),
}

impl Failure {
    /// Returns whether only a change of the spec can resolve the failure.
    fn needs_spec_change(&self) -> bool {
        matches!(
            self,
            Self::Owner(_)
                | Self::Metadata(_)
                | Self::Quota(QuotaError::Limit { .. })
                | Self::ObjectQuota(_)
                | Self::Pattern(_)
                | Self::DuplicateRoleName { .. }
        )
    }

    fn answer(&self) -> Option<&kube::Error> {
        match self {
            Self::Write(error) | Self::BindForbidden { source: error, .. } | Self::RbacForbidden(error) => {
                error.api_error()
            }
            _ => None,
        }
    }

    /// Returns whether a retry is likely to succeed: after a conflict, or if the API server is
    /// unavailable.
    fn is_transient(&self) -> bool {
        self.answer().is_some_and(is_conflict) || is_unavailable(self)
    }

    /// Returns whether the namespace is being deleted or no longer exists. Its deletion requeues
    /// the Tenant.
    pub fn is_terminating_namespace(&self) -> bool {
        self.answer().is_some_and(|answer| is_namespace_terminating(answer) || is_namespace_gone(answer))
    }
}

fn is_namespace_gone(answer: &kube::Error) -> bool {
    let kind = |status: &kube::core::Status| status.details.as_ref().map(|details| details.kind.clone());
    status(answer)
        .filter(|status| status.is_not_found())
        .and_then(kind)
        .is_some_and(|kind| kind == "namespaces")
}

/// Failures of a reconcile, each with its namespace if it affects only one.
#[derive(Debug, Default)]
pub struct Failures(Vec<(Option<String>, Failure)>);

impl Failures {
    /// Adds a failure that affects the Tenant as a whole.
    pub fn add(&mut self, failure: impl Into<Failure>) {
        self.0.push((None, failure.into()));
    }

    /// Adds failures that affect the Tenant as a whole.
    pub fn add_all(&mut self, failures: impl IntoIterator<Item = impl Into<Failure>>) {
        self.0.extend(failures.into_iter().map(|failure| (None, failure.into())));
    }

    /// Adds failures that affect one namespace.
    pub fn add_in(&mut self, namespace: &str, failures: Vec<Failure>) {
        self.0.extend(failures.into_iter().map(|failure| (Some(namespace.to_owned()), failure)));
    }

    /// Adds the failures of another step.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Returns whether there are no failures.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a retry is likely to resolve all failures. They are not reported then.
    pub fn are_transient(&self) -> bool {
        self.0.iter().all(|(_, failure)| failure.is_transient())
    }

    /// Returns whether only a change of the spec can resolve the failures.
    pub fn need_spec_change(&self) -> bool {
        self.0.iter().all(|(_, failure)| failure.needs_spec_change())
    }

    /// Returns the message for one namespace, if it has failures.
    pub fn in_namespace(&self, namespace: &str) -> Option<String> {
        let matching = self.0.iter().filter(|(affected, _)| affected.as_deref() == Some(namespace));
        let failures: Vec<_> = matching.map(|(_, failure)| failure).collect();
        (!failures.is_empty()).then(|| message(&failures))
    }

    /// Sorts the failures by namespace. Namespaces are processed concurrently, and the message must
    /// be stable.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        self
    }
}

fn message(failures: &[&Failure]) -> String {
    let mut messages: Vec<_> =
        failures.iter().take(MAX_LISTED_FAILURES).map(|failure| chain(*failure)).collect();
    if let Some(more) = failures.len().checked_sub(MAX_LISTED_FAILURES).filter(|more| *more > 0) {
        messages.push(format!("and {more} more"));
    }
    messages.join("; ")
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failures: Vec<_> = self.0.iter().map(|(_, failure)| failure).collect();
        f.write_str(&message(&failures))
    }
}

impl Error for Failures {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The source determines the retry, so prefer a failure that a retry does not resolve.
        let lasting = self.0.iter().find(|(_, failure)| !failure.is_transient());
        lasting.or_else(|| self.0.first()).map(|(_, failure)| failure as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(code: u16, reason: &str) -> WriteError {
        let status = kube::core::Status {
            code,
            reason: reason.to_owned(),
            message: format!("status {reason}"),
            ..kube::core::Status::default()
        };
        WriteError::Api {
            action: "create",
            object: "RoleBinding a/b".to_owned(),
            source: kube::Error::Api(Box::new(status)),
        }
    }

    #[test]
    fn forbidden_binding_explains_the_bind_permission() {
        let failure =
            Failure::BindForbidden { role: "cluster-admin".to_owned(), source: write(403, "Forbidden") };
        assert_eq!(
            chain(&failure),
            "the manager may not bind the ClusterRole cluster-admin; grant the manager the verb \"bind\" on that \
             ClusterRole: cannot create RoleBinding a/b: status Forbidden"
        );
    }

    #[test]
    fn message_lists_failures_up_to_a_limit() {
        let mut failures = Failures::default();
        for at in 0..10 {
            failures.add_in(&format!("ns-{at}"), vec![OwnerError::Name(format!("owner-{at}")).into()]);
        }
        let message = failures.to_string();
        assert!(message.contains("owner-7") && !message.contains("owner-8"), "{message}");
        assert!(message.ends_with("; and 2 more"), "{message}");
        assert!(failures.in_namespace("ns-9").unwrap().contains("owner-9"));
        assert_eq!(failures.in_namespace("other"), None);
        assert!(failures.need_spec_change());
    }

    #[test]
    fn conflicts_and_unavailable_api_server_are_transient() {
        let mut failures = Failures::default();
        failures.add(write(409, "Conflict"));
        failures.add(write(503, "ServiceUnavailable"));
        assert!(failures.are_transient());
        failures.add(write(403, "Forbidden"));
        assert!(!failures.are_transient());
        assert!(!is_unavailable(&failures), "a forbidden request must be reported");
    }
}
