//! Makes, repairs and takes away the cluster roles and their binding.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    informer::Selection,
    kind::is_deleting,
    write::{Children, WriteError},
    writer::Writer,
};

use super::{
    concerned,
    roles::{Grant, mark, narrowed},
};
use crate::api::v1beta2::CapsuleConfiguration;

/// Reads and writes the objects of one kind.
pub(super) struct Grants<K> {
    children: Children<K>,
    writer: Writer<K>,
}

impl<K: Grant> Grants<K> {
    /// Asks for the informer, and for a reconcile when an object of ours changes.
    pub(super) fn build(builder: &mut ControllerBuilder<'_, CapsuleConfiguration>) -> Self {
        let informer = builder.informer::<K>(Selection::Managed);
        builder
            .watches(&informer, |change| concerned(change.states().any(|state| mark().owns(state.meta()))));
        Self { children: Children::new(builder.client(), informer.clone()), writer: builder.writer(informer) }
    }

    /// Makes the object what it is to be.
    ///
    /// # Errors
    /// [`WriteError::NotOwned`] if there is one of that name that we must not touch.
    pub(super) async fn make(&self, wanted: &K) -> Result<(), WriteError> {
        let key = ObjectKey::of(wanted);
        let known = self.children.get(&key).filter(|found| mark().owns(found.meta()));
        if let Some(found) = known.filter(|found| wanted.must_replace(found)) {
            self.children.delete(&found).await?;
        }
        match self.settle(&key, wanted).await {
            Err(WriteError::NotOwned { .. }) if self.take_over(&key, wanted).await? => {
                self.settle(&key, wanted).await
            }
            settled => settled,
        }
    }

    async fn settle(&self, key: &ObjectKey, wanted: &K) -> Result<(), WriteError> {
        self.children.create_or_update(key, &mark(), |found| wanted.settle(found)).await.map(drop)
    }

    /// Takes over what is there, if that may be. Says whether there is something to be done now.
    async fn take_over(&self, key: &ObjectKey, wanted: &K) -> Result<bool, WriteError> {
        let Some(mut found) = self.writer.read(key).await? else { return Ok(true) };
        if !wanted.may_take_over(&found) {
            return Ok(false);
        }
        mark().set_on(found.meta_mut());
        wanted.settle(&mut found);
        self.writer.replace(key, &found).await?;
        Ok(true)
    }

    /// Takes away those of ours that have other names: they were made when the configuration named them so.
    pub(super) async fn prune(&self, wanted: &[&str]) -> Vec<WriteError> {
        let mut errors = Vec::new();
        for object in self.children.informer().store().list() {
            let is_wanted = wanted.contains(&object.name_any().as_str());
            if mark().owns(object.meta()) && !is_wanted && !is_deleting(object.as_ref()) {
                errors.extend(self.children.delete(&object).await.err());
            }
        }
        errors
    }
}

impl Grants<ClusterRoleBinding> {
    /// Takes those out of our bindings, whatever their names, who are not to be bound any more. Binds nobody: a role may be a
    /// stranger's by now.
    pub(super) async fn narrow(&self, wanted: &ClusterRoleBinding) -> Vec<WriteError> {
        let mut errors = Vec::new();
        for found in self.children.informer().store().list() {
            let narrowed = narrowed(wanted, &found).filter(|found| mark().owns(&found.metadata));
            if let Some(narrowed) = narrowed {
                errors.extend(self.writer.replace(&ObjectKey::of(found.as_ref()), &narrowed).await.err());
            }
        }
        errors
    }
}
