//! The single way to the objects that are written or deleted.

use std::collections::BTreeSet;

use kube::{Api, Client, core::DynamicObject};

use crate::{
    discovery::{ApiKind, Discovery, DiscoveryError},
    item::ItemKey,
};

/// Where the objects of a replication may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// Only in these namespaces, those of one Tenant.
    Namespaces(BTreeSet<String>),
    /// Anywhere.
    Cluster,
}

/// Reason why an object cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    /// The kind cannot be found.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// A TenantResource describes a cluster-scoped object.
    #[error(
        "cluster-scoped kind {api_version}/{kind} is not allowed; ask an administrator for a GlobalTenantResource"
    )]
    ClusterScoped {
        /// Group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A TenantResource describes an object outside of its Tenant.
    #[error("the namespace {0:?} does not belong to the Tenant")]
    OtherNamespace(String),
}

/// Gives access to the objects within some bounds, as one account.
///
/// Every write and delete gets its API here, so no path of the spec evades the check
/// (CVE-2026-65835).
pub(crate) struct Access<'d> {
    client: Client,
    discovery: &'d Discovery,
    bounds: Bounds,
}

impl<'d> Access<'d> {
    /// Returns the access of the account of `client`.
    pub(crate) fn new(client: Client, discovery: &'d Discovery, bounds: Bounds) -> Self {
        Self { client, discovery, bounds }
    }

    /// Returns the API for the object of an item.
    ///
    /// # Errors
    /// Returns an error if the object is outside of the bounds, or if its kind does not exist.
    pub(crate) async fn api(&self, key: &ItemKey) -> Result<Api<DynamicObject>, AccessError> {
        let kind = self.discovery.find(&key.gvk()).await?;
        check(&self.bounds, &kind, key)?;
        let client = self.client.clone();
        Ok(if kind.namespaced {
            Api::namespaced_with(client, &key.object.namespace, &kind.resource)
        } else {
            Api::all_with(client, &kind.resource)
        })
    }

    /// Removes the kind from the cache, because a request showed that it no longer exists.
    pub(crate) fn forget_kind(&self, key: &ItemKey) {
        self.discovery.forget(&key.gvk());
    }
}

fn check(bounds: &Bounds, kind: &ApiKind, key: &ItemKey) -> Result<(), AccessError> {
    let namespace = &key.object.namespace;
    match bounds {
        Bounds::Namespaces(_) if !kind.namespaced => {
            let types = key.types();
            Err(AccessError::ClusterScoped { api_version: types.api_version, kind: types.kind })
        }
        Bounds::Namespaces(allowed) if !allowed.contains(namespace) => {
            Err(AccessError::OtherNamespace(namespace.clone()))
        }
        // A path without the namespace would be that of all namespaces.
        Bounds::Cluster if kind.namespaced && namespace.is_empty() => {
            Err(AccessError::OtherNamespace(namespace.clone()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ApiResource;

    use super::*;
    use crate::item::ObjectId;

    fn result(bounds: &Bounds, namespaced: bool, namespace: &str) -> String {
        let object = ObjectId {
            group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            namespace: namespace.to_owned(),
            name: "a".to_owned(),
        };
        let key = ItemKey { object, tenant: String::new(), origin: String::new(), version: "v1".to_owned() };
        let kind = ApiKind { resource: ApiResource::from_gvk(&key.gvk()), namespaced };
        check(bounds, &kind, &key).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn cve_2026_65835_no_path_leads_out_of_the_tenant() {
        let oil = Bounds::Namespaces(["oil-dev".to_owned()].into());
        assert_eq!(result(&oil, true, "oil-dev"), "");
        let refused = "cluster-scoped kind rbac.authorization.k8s.io/v1/ClusterRole is not allowed";
        for namespace in ["", "oil-dev"] {
            assert!(result(&oil, false, namespace).starts_with(refused));
        }
        for namespace in ["", "kube-system", "oil-de", "oil-dev2"] {
            assert!(result(&oil, true, namespace).contains("does not belong to the Tenant"), "{namespace}");
        }
        assert!(!result(&Bounds::Namespaces(BTreeSet::new()), true, "oil-dev").is_empty());
    }

    #[test]
    fn administrators_have_no_bounds() {
        assert_eq!(result(&Bounds::Cluster, false, ""), "");
        assert_eq!(result(&Bounds::Cluster, true, "kube-system"), "");
        assert!(!result(&Bounds::Cluster, true, "").is_empty());
    }
}
