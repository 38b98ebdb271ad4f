//! Creates, updates, and prunes the ClusterRoles of owners and their ClusterRoleBinding.

use capsule::api::v1beta2::CapsuleConfiguration;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    kind::is_deleting,
    write::{Children, WriteError},
    writer::Writer,
};

use super::{
    configuration_if,
    roles::{RbacObject, ownership_mark, without_extra_subjects},
};

/// RBAC objects of one kind that the controller manages.
pub(super) struct RbacObjects<K> {
    children: Children<K>,
    writer: Writer<K>,
}

impl<K: RbacObject> RbacObjects<K> {
    /// Registers the informer. A change of a managed object requeues the configuration.
    pub(super) fn build(builder: &mut ControllerBuilder<'_, CapsuleConfiguration>) -> Self {
        let children = builder.children::<K>(|change| {
            configuration_if(change.states().any(|state| ownership_mark().owns(state.meta())))
        });
        Self { writer: builder.writer(children.informer().clone()), children }
    }

    /// Creates or updates the object.
    ///
    /// # Errors
    /// Returns [`WriteError::NotOwned`] if an object of that name exists that must not be adopted.
    pub(super) async fn apply(&self, desired: &K) -> Result<(), WriteError> {
        let key = ObjectKey::of(desired);
        let found = self.children.get(&key).filter(|found| ownership_mark().owns(found.meta()));
        if let Some(found) = found.filter(|found| desired.must_recreate(found)) {
            self.children.delete(&found).await?;
        }
        match self.create_or_update(&key, desired).await {
            Err(WriteError::NotOwned { .. }) if self.adopt(&key, desired).await? => {
                self.create_or_update(&key, desired).await
            }
            applied => applied,
        }
    }

    async fn create_or_update(&self, key: &ObjectKey, desired: &K) -> Result<(), WriteError> {
        let apply = |found: &mut K| desired.apply_to(found);
        self.children.create_or_update(key, &ownership_mark(), apply).await.map(drop)
    }

    /// Adopts the existing object if that is allowed. Returns whether the object can now be created
    /// or updated.
    async fn adopt(&self, key: &ObjectKey, desired: &K) -> Result<bool, WriteError> {
        let Some(mut found) = self.writer.read(key).await? else { return Ok(true) };
        if !desired.may_adopt(&found) {
            return Ok(false);
        }
        ownership_mark().set_on(found.meta_mut());
        desired.apply_to(&mut found);
        self.writer.replace(key, &found).await?;
        Ok(true)
    }

    /// Deletes managed objects with other names, which an earlier configuration had set.
    pub(super) async fn prune(&self, names: &[&str]) -> Vec<WriteError> {
        let mut errors = Vec::new();
        for object in self.children.informer().store().list() {
            let is_desired = names.contains(&object.name_any().as_str());
            if ownership_mark().owns(object.meta()) && !is_desired && !is_deleting(object.as_ref()) {
                errors.extend(self.children.delete(&object).await.err());
            }
        }
        errors
    }
}

impl RbacObjects<ClusterRoleBinding> {
    /// Removes subjects that are no longer desired from all managed bindings.
    ///
    /// Adds no subjects, because the ClusterRole may belong to another program.
    pub(super) async fn remove_extra_subjects(&self, desired: &ClusterRoleBinding) -> Vec<WriteError> {
        let mut errors = Vec::new();
        for found in self.children.informer().store().list() {
            let updated = without_extra_subjects(desired, &found);
            if let Some(updated) = updated.filter(|updated| ownership_mark().owns(&updated.metadata)) {
                errors.extend(self.writer.replace(&ObjectKey::of(found.as_ref()), &updated).await.err());
            }
        }
        errors
    }
}
