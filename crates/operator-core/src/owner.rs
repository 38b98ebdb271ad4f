//! Who an object belongs to: controller references within Kubernetes' rules, and marks where those end.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

/// The owner of a child object, in the form the child carries it.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    /// A controller reference. The garbage collector deletes the child with its owner.
    Reference(OwnerReference),
    /// An annotation, for owners that a reference cannot name: a reference never leaves its namespace.
    /// Nothing but the controller itself cleans up after such an owner.
    Mark {
        /// The annotation's key.
        key: &'static str,
        /// What identifies the owner; it should contain the owner's UID.
        value: String,
    },
}

/// Why an object cannot have the owner it was to get.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OwnerError {
    /// The owner came without UID or name, so it was never created.
    #[error("the {0} has no name and UID yet, so nothing can belong to it")]
    NotCreated(String),
    /// Owner references do not cross namespaces (a rule of Kubernetes' garbage collector).
    #[error("a {kind} in namespace {owner:?} cannot own an object in namespace {child:?}")]
    CrossesNamespaces {
        /// The owner's kind.
        kind: String,
        /// The owner's namespace.
        owner: String,
        /// The child's namespace, empty for a cluster-scoped child.
        child: String,
    },
}

impl Owner {
    /// The controller reference to `owner`, for children in `child_namespace` (`None`: cluster-scoped ones).
    ///
    /// # Errors
    /// When the owner was never created, and when the reference would cross namespaces. A cluster-scoped
    /// owner may own objects in any namespace.
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

    /// Whether the object belongs to this owner, and to this very incarnation of it (by UID).
    pub fn owns(&self, meta: &ObjectMeta) -> bool {
        match self {
            Self::Reference(owner) => controller_of(meta).is_some_and(|found| found.uid == owner.uid),
            Self::Mark { key, value } => mark_of(meta, key) == Some(value),
        }
    }

    /// Writes the owner into the metadata of an object that has none. Does nothing to one it owns already.
    pub fn stamp(&self, meta: &mut ObjectMeta) {
        if self.owns(meta) {
            return;
        }
        match self {
            Self::Reference(owner) => meta.owner_references.get_or_insert_default().push(owner.clone()),
            Self::Mark { key, value } => {
                meta.annotations.get_or_insert_default().insert((*key).to_owned(), value.clone());
            }
        }
    }
}

/// The owner reference that says `controller: true`; the API server allows one at most.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|reference| reference.controller == Some(true))
}

/// Who holds an object, in words for a message: `Deployment web`, or `nobody`.
pub fn held_by(meta: &ObjectMeta) -> String {
    controller_of(meta).map_or_else(|| "nobody".to_owned(), |owner| format!("{} {}", owner.kind, owner.name))
}

fn mark_of<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a String> {
    meta.annotations.as_ref().and_then(|annotations| annotations.get(key))
}

/// Whether `reference` points at an object of kind `K` (any version of its group).
pub fn refers_to<K: Resource<DynamicType = ()>>(reference: &OwnerReference) -> bool {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    reference.kind == K::kind(&()) && group == K::group(&())
}

/// Whether the metadata names `owner` by UID in any owner reference, controlling or not.
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
    fn a_reference_never_crosses_namespaces() {
        let owner = config_map("a", "1");
        assert!(matches!(Owner::controller(&owner, Some("b")), Err(OwnerError::CrossesNamespaces { .. })));
        assert!(matches!(Owner::controller(&owner, None), Err(OwnerError::CrossesNamespaces { .. })));
        assert!(Owner::controller(&owner, Some("a")).is_ok());
    }

    #[test]
    fn a_cluster_scoped_owner_owns_anywhere() {
        let mut owner = Namespace::default();
        owner.metadata.name = Some("owner".into());
        owner.metadata.uid = Some("1".into());
        assert!(Owner::controller(&owner, Some("b")).is_ok());
    }

    #[test]
    fn an_owner_that_was_never_created_owns_nothing() {
        let owner = Namespace::default();
        assert!(matches!(Owner::controller(&owner, None), Err(OwnerError::NotCreated(_))));
    }

    #[test]
    fn ownership_is_by_uid_so_a_namesake_is_a_stranger() {
        let first = Owner::controller(&config_map("a", "1"), Some("a")).unwrap();
        let second = Owner::controller(&config_map("a", "2"), Some("a")).unwrap();
        let mut child = ObjectMeta::default();
        first.stamp(&mut child);
        assert!(first.owns(&child));
        assert!(!second.owns(&child));
    }

    #[test]
    fn stamping_twice_changes_nothing() {
        let owner = Owner::Mark { key: "example.com/owner", value: "a/b/1".into() };
        let mut child = ObjectMeta::default();
        owner.stamp(&mut child);
        let once = child.clone();
        owner.stamp(&mut child);
        assert_eq!(child, once);
    }
}
