//! The objects inside the namespace, kept as declared.
//!
//! The namespace decides whose its contents are, so they carry only that they were made for it: whoever owns the
//! namespace next takes them over. An owner reference could not name an owner in another namespace.

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

/// The annotation of an object inside a namespace that we made it, with the namespace's name.
pub const MADE_FOR_KEY: &str = "mygroup.my.domain/made-for";

/// Why an object inside the namespace is not as declared.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The declaration makes no sense.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Trouble {
    /// All of it in one line.
    pub(crate) fn words(&self) -> String {
        chain(self)
    }

    fn answer(&self) -> Option<&kube::Error> {
        match self {
            Self::Write(error) => error.answer(),
            Self::Invalid(_) => None,
        }
    }

    /// Whether the API server refused: only a change of the spec or the cluster helps.
    pub(crate) fn is_refusal(&self) -> bool {
        self.answer().is_some_and(is_refusal)
    }

    /// Whether the namespace is on its way out, which the informer will show.
    pub(crate) fn is_terminating(&self) -> bool {
        self.answer().is_some_and(is_namespace_terminating)
    }

    /// Whether the next try will do, without anybody's help.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Write(error) if is_passing(error))
    }
}

/// Whether the next try will do, without anybody's help. An internal error of the API server is not counted: it
/// stands for an admission webhook that does not work as well.
pub(crate) fn is_passing(error: &WriteError) -> bool {
    error.answer().is_some_and(|answer| {
        is_conflict(answer)
            || (is_unavailable(answer) && status(answer).is_none_or(|status| status.code != 500))
    })
}

/// What is not as declared, by condition.
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

    /// The first of them; one that is passing before any other.
    pub(crate) fn into_first(self) -> Option<Trouble> {
        let mut all: Vec<_> = self.quota.into_iter().chain(self.policies).chain(self.access).collect();
        all.sort_by_key(|trouble| !trouble.is_passing());
        all.into_iter().next()
    }
}

/// All kinds of objects inside namespaces.
pub(crate) struct Parts {
    quotas: Part<ResourceQuota>,
    limits: Part<LimitRange>,
    policies: Part<NetworkPolicy>,
    budgets: Part<PodDisruptionBudget>,
    bindings: Part<RoleBinding>,
}

impl Parts {
    /// `owners` are the NamespacePlus of each name.
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

    /// Brings all that is inside the namespace to what is declared. One trouble does not stop the rest.
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

/// The objects of one kind inside namespaces.
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

/// The namespace that an object was made for, if it is in it.
fn made_for(meta: &ObjectMeta) -> Option<String> {
    let named = meta.annotations.as_ref()?.get(MADE_FOR_KEY)?;
    (meta.namespace.as_ref() == Some(named)).then(|| named.clone())
}

/// The NamespacePlus of a name, in all namespaces.
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
