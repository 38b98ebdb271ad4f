//! Owners of child objects: controller references, and annotations for owners in other namespaces.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

/// Owner of a child, as the child stores it.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    /// A controller reference. The garbage collector deletes the child with its owner.
    Reference(OwnerReference),
    /// An annotation, for an owner in another namespace, which an owner reference cannot name. The
    /// garbage collector ignores it, so the controller must delete the child.
    Annotation {
        /// Key of the annotation.
        key: &'static str,
        /// Identifier of the owner. It should contain the owner's UID.
        value: String,
    },
}

/// Error of an owner that a child cannot have.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OwnerError {
    /// The owner has no UID or name, because it was not created yet.
    #[error("the {0} has no name and UID, so it cannot own objects; create it first")]
    NotCreated(String),
    /// An owner reference cannot cross namespaces: the garbage collector does not support it.
    #[error("a {kind} in namespace {owner:?} cannot own an object in namespace {child:?}")]
    CrossesNamespaces {
        /// Kind of the owner.
        kind: String,
        /// Namespace of the owner.
        owner: String,
        /// Namespace of the child. Empty for a cluster-scoped child.
        child: String,
    },
}

impl Owner {
    /// Returns the controller reference to `owner` for children in `child_namespace`, or for
    /// cluster-scoped children if that is `None`.
    ///
    /// Together with [`Owner::set_on`], this corresponds to `SetControllerReference` of
    /// controller-runtime. The API server rejects a second controller.
    ///
    /// # Errors
    /// Returns an error if the owner was not created yet, or if the reference would cross
    /// namespaces. A cluster-scoped owner can own objects in any namespace.
    pub fn controller<K>(owner: &K, child_namespace: Option<&str>) -> Result<Self, OwnerError>
    where
        K: Resource<DynamicType = ()>,
    {
        if let Some(namespace) = owner.meta().namespace.as_deref()
            && child_namespace != Some(namespace)
        {
            return Err(OwnerError::CrossesNamespaces {
                kind: K::kind(&()).into_owned(),
                owner: namespace.to_owned(),
                child: child_namespace.unwrap_or_default().to_owned(),
            });
        }
        owner
            .controller_owner_ref(&())
            .map(|reference| {
                Self::Reference(OwnerReference { block_owner_deletion: Some(true), ..reference })
            })
            .ok_or_else(|| OwnerError::NotCreated(K::kind(&()).into_owned()))
    }

    /// Returns whether the object belongs to this owner, compared by UID.
    pub fn owns(&self, meta: &ObjectMeta) -> bool {
        match self {
            Self::Reference(owner) => controller_of(meta).is_some_and(|found| found.uid == owner.uid),
            Self::Annotation { key, value } => annotation(meta, key) == Some(value),
        }
    }

    /// Returns whether the object belongs to an earlier owner: one of the same kind and name that was
    /// deleted and created again. The garbage collector deletes such an object.
    pub fn succeeds_owner_of(&self, meta: &ObjectMeta) -> bool {
        let (Self::Reference(owner), Some(found)) = (self, controller_of(meta)) else { return false };
        let identity = |reference: &OwnerReference| {
            let group = reference.api_version.split_once('/').map(|(group, _)| group.to_owned());
            (group, reference.kind.clone(), reference.name.clone())
        };
        found.uid != owner.uid && identity(found) == identity(owner)
    }

    /// Adds the owner to the metadata of an object, unless it is there already.
    pub fn set_on(&self, meta: &mut ObjectMeta) {
        if self.owns(meta) {
            return;
        }
        match self {
            Self::Reference(owner) => meta.owner_references.get_or_insert_default().push(owner.clone()),
            Self::Annotation { key, value } => {
                meta.annotations.get_or_insert_default().insert((*key).to_owned(), value.clone());
            }
        }
    }
}

/// Returns the owner reference with `controller: true`. The API server allows at most one.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|reference| reference.controller == Some(true))
}

/// Returns kind and name of an object's controller for messages, such as `Deployment web`, or
/// `none`.
pub fn describe_controller(meta: &ObjectMeta) -> String {
    controller_of(meta).map_or_else(|| "none".to_owned(), |owner| format!("{} {}", owner.kind, owner.name))
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a String> {
    meta.annotations.as_ref().and_then(|annotations| annotations.get(key))
}

/// Returns whether `reference` refers to an object of kind `K`, in any version of its group.
pub fn refers_to<K: Resource<DynamicType = ()>>(reference: &OwnerReference) -> bool {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    reference.kind == K::kind(&()) && group == K::group(&())
}

/// Returns whether any owner reference has the UID of `owner`, also one that is no controller
/// reference.
pub fn references<K: Resource>(meta: &ObjectMeta, owner: &K) -> bool {
    let uid = owner.uid();
    uid.is_some()
        && meta.owner_references.iter().flatten().any(|reference| Some(&reference.uid) == uid.as_ref())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    fn config_map(namespace: &str, uid: &str) -> ConfigMap {
        let mut owner = ConfigMap::default();
        owner.metadata.name = Some("owner".into());
        owner.metadata.namespace = Some(namespace.into());
        owner.metadata.uid = Some(uid.into());
        owner
    }

    #[test]
    fn rejects_references_across_namespaces() {
        let owner = config_map("a", "1");
        assert!(matches!(Owner::controller(&owner, Some("b")), Err(OwnerError::CrossesNamespaces { .. })));
        assert!(matches!(Owner::controller(&owner, None), Err(OwnerError::CrossesNamespaces { .. })));
        assert!(Owner::controller(&owner, Some("a")).is_ok());
    }

    #[test]
    fn cluster_scoped_owner_owns_in_any_namespace() {
        let mut owner = Namespace::default();
        owner.metadata.name = Some("owner".into());
        owner.metadata.uid = Some("1".into());
        assert!(Owner::controller(&owner, Some("b")).is_ok());
    }

    #[test]
    fn rejects_owner_without_uid() {
        let owner = Namespace::default();
        assert!(matches!(Owner::controller(&owner, None), Err(OwnerError::NotCreated(_))));
    }

    #[test]
    fn compares_owners_by_uid() {
        let first = Owner::controller(&config_map("a", "1"), Some("a")).unwrap();
        let second = Owner::controller(&config_map("a", "2"), Some("a")).unwrap();
        let mut child = ObjectMeta::default();
        first.set_on(&mut child);
        assert!(first.owns(&child));
        assert!(!second.owns(&child));
    }

    #[test]
    fn recognizes_objects_of_an_earlier_owner_of_its_name() {
        let earlier = Owner::controller(&config_map("a", "1"), Some("a")).unwrap();
        let later = Owner::controller(&config_map("a", "2"), Some("a")).unwrap();
        let mut child = ObjectMeta::default();
        assert!(!later.succeeds_owner_of(&child));
        earlier.set_on(&mut child);
        assert!(later.succeeds_owner_of(&child));
        assert!(!earlier.succeeds_owner_of(&child), "it still owns the object");
        let reference = child.owner_references.as_mut().unwrap().first_mut().unwrap();
        "apps/v1".clone_into(&mut reference.api_version);
        assert!(!later.succeeds_owner_of(&child), "the kind of another group");
    }

    #[test]
    fn adds_the_owner_once() {
        let owner = Owner::Annotation { key: "example.com/owner", value: "a/b/1".into() };
        let mut child = ObjectMeta::default();
        owner.set_on(&mut child);
        let once = child.clone();
        owner.set_on(&mut child);
        assert_eq!(child, once);
    }
}
