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
    ControllerBuilder, ObjectKey,
    error::{chain, is_conflict, is_denied, is_namespace_terminating, is_unavailable, status},
    informer::{Change, Index},
    kind::is_deleting,
    owner::Owner,
    write::{Children, WriteError},
};

use crate::{
    api::NamespacePlus,
    build::{self, DesiredObjects, Invalid},
    child::Child,
};

/// Annotation of an object in a namespace that the controller created, with the name of the
/// namespace.
pub const MADE_FOR_KEY: &str = "mygroup.my.domain/made-for";

/// Reason why an object in the namespace could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The spec of the object is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Failure {
    /// Returns the error with all its causes.
    pub(crate) fn describe(&self) -> String {
        chain(self)
    }

    fn answer(&self) -> Option<&kube::Error> {
        match self {
            Self::Write(error) => error.api_error(),
            Self::Invalid(_) => None,
        }
    }

    /// Returns whether the API server denied the write. Only a change of the spec or of the cluster
    /// helps.
    pub(crate) fn is_denied(&self) -> bool {
        self.answer().is_some_and(is_denied)
    }

    /// Returns whether the namespace is terminating, which the informer will report.
    pub(crate) fn is_terminating(&self) -> bool {
        self.answer().is_some_and(is_namespace_terminating)
    }

    /// Returns whether the error is transient.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Write(error) if is_transient(error))
    }
}

/// Returns whether the error is transient. Internal errors of the API server are not, because they
/// include failures of admission webhooks.
pub(crate) fn is_transient(error: &WriteError) -> bool {
    error.api_error().is_some_and(|answer| {
        is_conflict(answer)
            || (is_unavailable(answer) && status(answer).is_none_or(|status| status.code != 500))
    })
}

/// Failures by condition.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    pub(crate) quota: Vec<Failure>,
    pub(crate) policies: Vec<Failure>,
    pub(crate) access: Vec<Failure>,
}

impl Failures {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Failure> {
        self.quota.iter().chain(&self.policies).chain(&self.access)
    }

    /// Returns the first failure, transient ones first.
    pub(crate) fn into_most_relevant(self) -> Option<Failure> {
        let mut all: Vec<_> = self.quota.into_iter().chain(self.policies).chain(self.access).collect();
        all.sort_by_key(|failure| !failure.is_transient());
        all.into_iter().next()
    }
}

/// Reconcilers for all kinds of objects in a namespace.
pub(crate) struct Contents {
    quotas: KindReconciler<ResourceQuota>,
    limits: KindReconciler<LimitRange>,
    policies: KindReconciler<NetworkPolicy>,
    budgets: KindReconciler<PodDisruptionBudget>,
    bindings: KindReconciler<RoleBinding>,
}

impl Contents {
    /// Starts the informers. `owners` is the index of NamespacePlus objects by name.
    pub(crate) fn build(
        builder: &mut ControllerBuilder<'_, NamespacePlus>,
        owners: &Index<NamespacePlus, String>,
    ) -> Self {
        Self {
            quotas: KindReconciler::build(builder, owners),
            limits: KindReconciler::build(builder, owners),
            policies: KindReconciler::build(builder, owners),
            budgets: KindReconciler::build(builder, owners),
            bindings: KindReconciler::build(builder, owners),
        }
    }

    /// Reconciles all objects in the namespace. A failure on one does not block the others.
    pub(crate) async fn reconcile(&self, object: &NamespacePlus) -> Failures {
        let namespace = object.name_any();
        let mut failures = Failures::default();
        failures.quota.extend(self.quotas.reconcile(&namespace, build::quotas(object)).await);
        failures.quota.extend(self.limits.reconcile(&namespace, build::limits(object)).await);
        failures.policies.extend(self.policies.reconcile(&namespace, build::policies(object)).await);
        failures.policies.extend(self.budgets.reconcile(&namespace, build::budgets(object)).await);
        failures.access.extend(self.bindings.reconcile(&namespace, build::bindings(object)).await);
        failures
    }
}

/// Reconciler for the objects of one kind.
struct KindReconciler<K> {
    children: Children<K>,
    by_namespace: Index<K, String>,
}

impl<K: Child> KindReconciler<K> {
    fn build(
        builder: &mut ControllerBuilder<'_, NamespacePlus>,
        owners: &Index<NamespacePlus, String>,
    ) -> Self {
        let owners = owners.clone();
        let children = builder.children(move |change: &Change<K>| {
            change.key.namespace().map(|namespace| keys(&owners, namespace)).unwrap_or_default()
        });
        let by_namespace =
            children.informer().store().index(|child: &K| made_for(child.meta()).into_iter().collect());
        Self { children, by_namespace }
    }

    async fn reconcile(&self, namespace: &str, declared: DesiredObjects<K>) -> Vec<Failure> {
        let mut failures = Vec::new();
        for object in &declared.objects {
            failures.extend(self.create_or_update(namespace, object).await.err().map(Failure::from));
        }
        for surplus in self.by_namespace.get(&namespace.to_owned()) {
            if !declared.names(&surplus.name_any()) {
                failures.extend(self.delete_surplus(&surplus).await.err().map(Failure::from));
            }
        }
        failures.extend(declared.invalid.into_iter().map(Failure::from));
        failures
    }

    async fn create_or_update(&self, namespace: &str, object: &K) -> Result<(), WriteError> {
        let key = ObjectKey::namespaced(namespace, &object.name_any());
        let owner = Owner::Annotation { key: MADE_FOR_KEY, value: namespace.to_owned() };
        let replaced = self.children.get(&key).filter(|present| object.must_replace(present));
        if let Some(replaced) = replaced.filter(|replaced| owner.owns(replaced.meta())) {
            self.children.delete(&replaced).await?;
        }
        self.children.create_or_update(&key, &owner, |present| object.apply_to(present)).await.map(drop)
    }

    async fn delete_surplus(&self, surplus: &Arc<K>) -> Result<(), WriteError> {
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
    fn copied_annotation_in_another_namespace_is_ignored() {
        let mut meta = ObjectMeta { namespace: Some("blue".into()), ..ObjectMeta::default() };
        meta.annotations = Some([(MADE_FOR_KEY.to_owned(), "blue".to_owned())].into());
        assert_eq!(made_for(&meta), Some("blue".to_owned()));
        meta.namespace = Some("red".into());
        assert_eq!(made_for(&meta), None);
    }
}
