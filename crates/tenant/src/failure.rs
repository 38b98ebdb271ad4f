//! What kept a Tenant, or the configuration, from being as its spec asks. One failure does not stand in the way of the other steps, so
//! there may be several.

use std::{error::Error, fmt};

use operator_core::{
    error::{chain, is_conflict, is_namespace_terminating, is_unavailable, status},
    write::WriteError,
};

use crate::{namespace::MetadataError, owners::OwnerError, quota::QuotaError};

/// How many failures are spelled out.
const TOLD: usize = 8;

/// One thing that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An owner gets no rights.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// Labels and annotations are left out.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A quota cannot be divided.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// An object could not be made, changed or deleted.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The API server does not let the manager give a role.
    #[error(
        "the manager may not give the ClusterRole {role}; grant the manager the verb \"bind\" on that ClusterRole"
    )]
    MayNotBind {
        /// The role.
        role: String,
        /// The API server's answer.
        source: WriteError,
    },
    /// A pattern of the configuration that this manager cannot use, although the API server can read it.
    #[error("{0}")]
    Pattern(String),
    /// One name for two cluster roles that grant different things.
    #[error(
        "spec.rbac: provisioner and deleter are both {name:?}; they grant different rights and need two names"
    )]
    OneRole {
        /// The name.
        name: String,
    },
    /// The API server does not let the manager keep a cluster role or its binding.
    #[error(
        "the manager has no right to keep this; under the default names it has, and for a name of your own it needs the \
         verbs update and delete on it"
    )]
    MayNotKeep(#[source] WriteError),
}

impl Failure {
    /// Whether only another spec helps.
    fn needs_other_spec(&self) -> bool {
        matches!(
            self,
            Self::Owner(_)
                | Self::Metadata(_)
                | Self::Quota(QuotaError::Limit { .. })
                | Self::Pattern(_)
                | Self::OneRole { .. }
        )
    }

    fn answer(&self) -> Option<&kube::Error> {
        match self {
            Self::Write(error) | Self::MayNotBind { source: error, .. } | Self::MayNotKeep(error) => {
                error.api_error()
            }
            _ => None,
        }
    }

    /// Whether the next attempt is likely to settle it: the cache was behind, or the API server is away.
    fn is_passing(&self) -> bool {
        self.answer().is_some_and(is_conflict) || is_unavailable(self)
    }

    /// Whether the namespace is about to go or gone. The informer will tell so; there is nothing to do in it.
    pub fn is_of_leaving_namespace(&self) -> bool {
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

/// All that could not be done, each with the namespace it concerns, if it is one.
#[derive(Debug, Default)]
pub struct Failures(Vec<(Option<String>, Failure)>);

impl Failures {
    /// Adds one that concerns the Tenant as a whole.
    pub fn add(&mut self, failure: impl Into<Failure>) {
        self.0.push((None, failure.into()));
    }

    /// Adds several of that sort.
    pub fn add_all(&mut self, failures: impl IntoIterator<Item = impl Into<Failure>>) {
        self.0.extend(failures.into_iter().map(|failure| (None, failure.into())));
    }

    /// Adds those that concern a namespace.
    pub fn add_in(&mut self, namespace: &str, failures: Vec<Failure>) {
        self.0.extend(failures.into_iter().map(|failure| (Some(namespace.to_owned()), failure)));
    }

    /// Adds those of another step.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Whether all went well.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all that went wrong will settle by itself, so that there is nothing to tell.
    pub fn are_passing(&self) -> bool {
        self.0.iter().all(|(_, failure)| failure.is_passing())
    }

    /// Whether nothing but another spec helps.
    pub fn need_other_spec(&self) -> bool {
        self.0.iter().all(|(_, failure)| failure.needs_other_spec())
    }

    /// What to say of one namespace, if there is anything.
    pub fn in_namespace(&self, namespace: &str) -> Option<String> {
        let of_it = self.0.iter().filter(|(concerned, _)| concerned.as_deref() == Some(namespace));
        let failures: Vec<_> = of_it.map(|(_, failure)| failure).collect();
        (!failures.is_empty()).then(|| spelled(&failures))
    }

    /// In the order of the namespaces, which are worked on at the same time, so that the words stay the same.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        self
    }
}

fn spelled(failures: &[&Failure]) -> String {
    let mut told: Vec<_> = failures.iter().take(TOLD).map(|failure| chain(*failure)).collect();
    if let Some(more) = failures.len().checked_sub(TOLD).filter(|more| *more > 0) {
        told.push(format!("and {more} more"));
    }
    told.join("; ")
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failures: Vec<_> = self.0.iter().map(|(_, failure)| failure).collect();
        f.write_str(&spelled(&failures))
    }
}

impl Error for Failures {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // One that will not pass, if there is one: what is done about the error goes by its source.
        let stays = self.0.iter().find(|(_, failure)| !failure.is_passing());
        stays.or_else(|| self.0.first()).map(|(_, failure)| failure as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(code: u16, reason: &str) -> WriteError {
        let status = kube::core::Status {
            code,
            reason: reason.to_owned(),
            message: format!("said {reason}"),
            ..kube::core::Status::default()
        };
        WriteError::Api {
            action: "create",
            object: "RoleBinding a/b".to_owned(),
            source: kube::Error::Api(Box::new(status)),
        }
    }

    #[test]
    fn a_refused_role_is_told_with_the_servers_words_and_what_to_do() {
        let failure =
            Failure::MayNotBind { role: "cluster-admin".to_owned(), source: write(403, "Forbidden") };
        assert_eq!(
            chain(&failure),
            "the manager may not give the ClusterRole cluster-admin; grant the manager the verb \"bind\" on that \
             ClusterRole: cannot create RoleBinding a/b: said Forbidden"
        );
    }

    #[test]
    fn many_troubles_are_counted_and_each_namespace_has_its_own() {
        let mut failures = Failures::default();
        for at in 0..10 {
            failures.add_in(&format!("ns-{at}"), vec![OwnerError::Name(format!("owner-{at}")).into()]);
        }
        let told = failures.to_string();
        assert!(told.contains("owner-7") && !told.contains("owner-8"), "{told}");
        assert!(told.ends_with("; and 2 more"), "{told}");
        assert!(failures.in_namespace("ns-9").unwrap().contains("owner-9"));
        assert_eq!(failures.in_namespace("other"), None);
        assert!(failures.need_other_spec());
    }

    #[test]
    fn conflicts_and_an_absent_server_pass() {
        let mut failures = Failures::default();
        failures.add(write(409, "Conflict"));
        failures.add(write(503, "ServiceUnavailable"));
        assert!(failures.are_passing());
        failures.add(write(403, "Forbidden"));
        assert!(!failures.are_passing());
        assert!(!is_unavailable(&failures), "there is something to tell");
    }
}
