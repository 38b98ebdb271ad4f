//! The kinds that are observed and modified.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};

/// A kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    group: &'static str,
    version: &'static str,
    /// Singular name.
    pub singular: &'static str,
    plural: &'static str,
    /// Whether the kind is namespaced.
    pub is_namespaced: bool,
}

const fn namespaced(
    group: &'static str,
    version: &'static str,
    singular: &'static str,
    plural: &'static str,
) -> Kind {
    Kind { group, version, singular, plural, is_namespaced: true }
}

/// PodSet.
pub const POD_SET: Kind = namespaced("app.example.com", "v1alpha1", "PodSet", "podsets");
/// Memcached.
pub const MEMCACHED: Kind = namespaced("cache.example.com", "v1alpha1", "Memcached", "memcacheds");
/// NamespacePlus.
pub const NAMESPACE_PLUS: Kind = namespaced("mygroup.my.domain", "v1", "NamespacePlus", "namespacepluses");
/// Tenant.
pub const TENANT: Kind = Kind {
    group: "capsule.clastix.io",
    version: "v1beta2",
    singular: "Tenant",
    plural: "tenants",
    is_namespaced: false,
};
/// TenantResource.
pub const TENANT_RESOURCE: Kind =
    namespaced("capsule.clastix.io", "v1beta2", "TenantResource", "tenantresources");
/// GlobalTenantResource.
pub const GLOBAL_TENANT_RESOURCE: Kind = Kind {
    group: "capsule.clastix.io",
    version: "v1beta2",
    singular: "GlobalTenantResource",
    plural: "globaltenantresources",
    is_namespaced: false,
};
/// PostgresCluster.
pub const POSTGRES_CLUSTER: Kind = namespaced("lukeb0nd.com", "v1", "PostgresCluster", "postgresclusters");
/// PostgresBackup.
pub const POSTGRES_BACKUP: Kind = namespaced("lukeb0nd.com", "v1", "PostgresBackup", "postgresbackups");
/// Kubernetes' own.
pub const POD: Kind = namespaced("", "v1", "Pod", "pods");
/// Kubernetes' own.
pub const DEPLOYMENT: Kind = namespaced("apps", "v1", "Deployment", "deployments");
/// Kubernetes' own.
pub const SERVICE: Kind = namespaced("", "v1", "Service", "services");
/// Kubernetes' own.
pub const BUDGET: Kind = namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
/// Kubernetes' own.
pub const NAMESPACE: Kind =
    Kind { group: "", version: "v1", singular: "Namespace", plural: "namespaces", is_namespaced: false };
/// Kubernetes' own.
pub const RESOURCE_QUOTA: Kind = namespaced("", "v1", "ResourceQuota", "resourcequotas");
/// Kubernetes' own.
pub const LIMIT_RANGE: Kind = namespaced("", "v1", "LimitRange", "limitranges");
/// Kubernetes' own.
pub const NETWORK_POLICY: Kind = namespaced("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies");
/// Kubernetes' own.
pub const ROLE_BINDING: Kind = namespaced("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
/// Kubernetes' own.
pub const ROLE: Kind = namespaced("rbac.authorization.k8s.io", "v1", "Role", "roles");
/// Kubernetes' own.
pub const SERVICE_ACCOUNT: Kind = namespaced("", "v1", "ServiceAccount", "serviceaccounts");
/// Kubernetes' own.
pub const SECRET: Kind = namespaced("", "v1", "Secret", "secrets");
/// Kubernetes' own.
pub const LEASE: Kind = namespaced("coordination.k8s.io", "v1", "Lease", "leases");
/// Kubernetes' own.
pub const PERSISTENT_VOLUME_CLAIM: Kind =
    namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");

/// Kubernetes' own.
pub const PERSISTENT_VOLUME: Kind = Kind {
    group: "",
    version: "v1",
    singular: "PersistentVolume",
    plural: "persistentvolumes",
    is_namespaced: false,
};

/// All observed kinds.
pub const OBSERVED: [&Kind; 23] = [
    &POD_SET,
    &MEMCACHED,
    &NAMESPACE_PLUS,
    &TENANT,
    &TENANT_RESOURCE,
    &GLOBAL_TENANT_RESOURCE,
    &POSTGRES_CLUSTER,
    &POSTGRES_BACKUP,
    &POD,
    &DEPLOYMENT,
    &SERVICE,
    &BUDGET,
    &NAMESPACE,
    &RESOURCE_QUOTA,
    &LIMIT_RANGE,
    &NETWORK_POLICY,
    &ROLE_BINDING,
    &ROLE,
    &SERVICE_ACCOUNT,
    &SECRET,
    &LEASE,
    &PERSISTENT_VOLUME_CLAIM,
    &PERSISTENT_VOLUME,
];

impl Kind {
    /// Returns `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            return self.version.to_owned();
        }
        format!("{}/{}", self.group, self.version)
    }

    /// Returns the plural with the group, as in requests.
    pub fn resource(&self) -> String {
        if self.group.is_empty() {
            return self.plural.to_owned();
        }
        format!("{}.{}", self.plural, self.group)
    }

    /// Returns the API resource.
    pub fn api_resource(&self) -> ApiResource {
        let named = GroupVersionKind::gvk(self.group, self.version, self.singular);
        ApiResource::from_gvk_with_plural(&named, self.plural)
    }

    /// Returns the API for all objects.
    pub fn everywhere(&self, client: Client) -> Api<DynamicObject> {
        Api::all_with(client, &self.api_resource())
    }

    /// Returns the API for a namespace, or for all objects of a cluster-scoped kind.
    pub fn within(&self, client: Client, namespace: &str) -> Api<DynamicObject> {
        if self.is_namespaced {
            return Api::namespaced_with(client, namespace, &self.api_resource());
        }
        self.everywhere(client)
    }
}
