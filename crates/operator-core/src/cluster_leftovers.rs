//! Cluster-scoped objects that remain after a controller is removed.

use kube::{
    Resource,
    core::{ApiResource, ClusterResourceScope},
};

use crate::owner::Owner;

/// Cluster-scoped objects of a controller that garbage collection does not delete.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterLeftovers {
    /// Kind of the objects.
    pub resource: ApiResource,
    /// Owner that identifies the objects. They also carry the managed-by label of this project.
    pub owner: Owner,
    /// Default names of the objects. The permission to delete is limited to these names.
    pub names: &'static [&'static str],
}

impl ClusterLeftovers {
    /// Returns the objects of kind `K` that belong to `owner`.
    pub fn of<K>(owner: Owner, names: &'static [&'static str]) -> Self
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Self { resource: ApiResource::erase::<K>(&()), owner, names }
    }
}
