//! Reconciles the objects in the namespace.
//!
//! The owner of the namespace owns its contents, so an annotation names only the namespace. An
//! owner reference cannot name an owner in another namespace.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{LimitRange, ResourceQuota},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::RoleBinding,
};
use kube::{ResourceExt, core::ObjectMeta};
use operator_core::{
    ObjectKey, Wiring,
    error::{chain, is_conflict, is_namespace_terminating, is_refusal, is_unavailable, status},
    informer::{Change, Index},
    kind::is_deleting,
    owner::Owner,
    write::{Children, WriteError},
};

use crate::{
    api::NamespacePlus,
    build::{self, Declared, Invalid},
    child::Child,
};

/// Annotation of an object in a namespace that the controller created, with the name of the
/// namespace.
pub const MADE_FOR_KEY: &str = "mygroup.my.domain/made-for";

/// Reason why an object in the namespace could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The spec of the object is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Trouble {
    /// Returns the error with all its causes.
    pub(crate) fn words(&self) -> String {
        chain(self)
    }

    fn answer(&self) -> Option<&kube::Error> {
        match self {
            Self::Write(error) => error.answer(),
            Self::Invalid(_) => None,
        }
    }

    /// Returns whether the API server denied the write. Only a change of the spec or of the cluster
    /// helps.
    pub(crate) fn is_refusal(&self) -> bool {
        self.answer().is_some_and(is_refusal)
    }

    /// Returns whether the namespace is terminating, which the informer will report.
    pub(crate) fn is_terminating(&self) -> bool {
        self.answer().is_some_and(is_namespace_terminating)
    }

    /// Returns whether the error is transient.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Write(error) if is_passing(error))
    }
}

/// Returns whether the error is transient. Internal errors of the API server are not, because they
/// include failures of admission webhooks.
pub(crate) fn is_passing(error: &WriteError) -> bool {
    error.answer().is_some_and(|answer| {
        is_conflict(answer)
            || (is_unavailable(answer) && status(answer).is_none_or(|status| status.code != 500))
    })
}

/// Failures by condition.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    pub(crate) quota: Vec<Trouble>,
    pub(crate) policies: Vec<Trouble>,
    pub(crate) access: Vec<Trouble>,
}

impl Troubles {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Trouble> {
        self.quota.iter().chain(&self.policies).chain(&self.access)
    }

    /// Returns the first failure, transient ones first.
    pub(crate) fn into_first(self) -> Option<Trouble> {
        let mut all: Vec<_> = self.quota.into_iter().chain(self.policies).chain(self.access).collect();
        all.sort_by_key(|trouble| !trouble.is_passing());
        all.into_iter().next()
    }
}

/// Reconcilers for all kinds of objects in a namespace.
pub(crate) struct Parts {
    quotas: Part<ResourceQuota>,
    limits: Part<LimitRange>,
    policies: Part<NetworkPolicy>,
    budgets: Part<PodDisruptionBudget>,
    bindings: Part<RoleBinding>,
}

impl Parts {
    /// Starts the informers. `owners` is the index of NamespacePlus objects by name.
    pub(crate) fn wire(
        wiring: &mut Wiring<'_, NamespacePlus>,
        owners: &Index<NamespacePlus, String>,
    ) -> Self {
        Self {
            quotas: Part::wire(wiring, owners),
            limits: Part::wire(wiring, owners),
            policies: Part::wire(wiring, owners),
            budgets: Part::wire(wiring, owners),
            bindings: Part::wire(wiring, owners),
        }
    }

    /// Reconciles all objects in the namespace. A failure on one does not block the others.
    pub(crate) async fn keep(&self, object: &NamespacePlus) -> Troubles {
        let namespace = object.name_any();
        let mut troubles = Troubles::default();
        troubles.quota.extend(self.quotas.keep(&namespace, build::quotas(object)).await);
        troubles.quota.extend(self.limits.keep(&namespace, build::limits(object)).await);
        troubles.policies.extend(self.policies.keep(&namespace, build::policies(object)).await);
        troubles.policies.extend(self.budgets.keep(&namespace, build::budgets(object)).await);
        troubles.access.extend(self.bindings.keep(&namespace, build::bindings(object)).await);
        troubles
    }
}

/// Reconciler for the objects of one kind.
struct Part<K> {
    children: Children<K>,
    made: Index<K, String>,
}

impl<K: Child> Part<K> {
    fn wire(wiring: &mut Wiring<'_, NamespacePlus>, owners: &Index<NamespacePlus, String>) -> Self {
        let owners = owners.clone();
        let children = wiring.children(move |change: &Change<K>| {
            change.key.namespace().map(|namespace| keys(&owners, namespace)).unwrap_or_default()
        });
        let made =
            children.informer().store().index(|child: &K| made_for(child.meta()).into_iter().collect());
        Self { children, made }
    }

    async fn keep(&self, namespace: &str, declared: Declared<K>) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        for object in &declared.objects {
            troubles.extend(self.put(namespace, object).await.err().map(Trouble::from));
        }
        for surplus in self.made.get(&namespace.to_owned()) {
            if !declared.names(&surplus.name_any()) {
                troubles.extend(self.take_away(&surplus).await.err().map(Trouble::from));
            }
        }
        troubles.extend(declared.invalid.into_iter().map(Trouble::from));
        troubles
    }

    async fn put(&self, namespace: &str, object: &K) -> Result<(), WriteError> {
        let key = ObjectKey::namespaced(namespace, &object.name_any());
        let owner = Owner::Mark { key: MADE_FOR_KEY, value: namespace.to_owned() };
        let misfit = self.children.get(&key).filter(|present| object.must_replace(present));
        if let Some(misfit) = misfit.filter(|misfit| owner.owns(misfit.meta())) {
            self.children.delete(&misfit).await?;
        }
        self.children.create_or_update(&key, &owner, |present| object.fit(present)).await.map(drop)
    }

    async fn take_away(&self, surplus: &Arc<K>) -> Result<(), WriteError> {
        if is_deleting(surplus.as_ref()) { Ok(()) } else { self.children.delete(surplus).await }
    }
}

/// Returns the namespace that the object was created for, if the object is in that namespace.
fn made_for(meta: &ObjectMeta) -> Option<String> {
    let named = meta.annotations.as_ref()?.get(MADE_FOR_KEY)?;
    (meta.namespace.as_ref() == Some(named)).then(|| named.clone())
}

/// Returns the keys of the NamespacePlus objects with this name, in all namespaces.
pub(crate) fn keys(owners: &Index<NamespacePlus, String>, name: &str) -> Vec<ObjectKey> {
    owners.get(&name.to_owned()).iter().map(|owner| ObjectKey::of(owner.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_was_copied_elsewhere_with_its_mark_is_not_ours() {
        let mut meta = ObjectMeta { namespace: Some("blue".into()), ..ObjectMeta::default() };
        meta.annotations = Some([(MADE_FOR_KEY.to_owned(), "blue".to_owned())].into());
        assert_eq!(made_for(&meta), Some("blue".to_owned()));
        meta.namespace = Some("red".into());
        assert_eq!(made_for(&meta), None);
    }
}
