//! Labels, annotations, and the finalizer of Capsule.

/// Label of a namespace: its Tenant. The namespace also has an owner reference, and both must
/// agree.
pub const TENANT_LABEL: &str = "capsule.clastix.io/tenant";

/// Label of a managed object: its Tenant.
pub const OBJECT_TENANT_LABEL: &str = "projectcapsule.dev/tenant";
/// Label of a managed object: its manager.
pub const OBJECT_MANAGER_LABEL: &str = "projectcapsule.dev/managed-by";
/// Value of [`OBJECT_MANAGER_LABEL`].
pub const OBJECT_MANAGER: &str = "controller";

/// Label of a `LimitRange`: its index in the Tenant's list.
pub const LIMIT_RANGE_LABEL: &str = "capsule.clastix.io/limit-range";
/// Label of a `NetworkPolicy`: its index in the Tenant's list.
pub const NETWORK_POLICY_LABEL: &str = "capsule.clastix.io/network-policy";
/// Label of a `ResourceQuota`: its index in the Tenant's list.
pub const RESOURCE_QUOTA_LABEL: &str = "capsule.clastix.io/resource-quota";
/// Label of a `RoleBinding`: the hash of its role and subjects.
pub const ROLE_BINDING_LABEL: &str = "capsule.clastix.io/role-binding";

/// Label with the name of the object. The API server sets it on namespaces, and our webhook on
/// Tenants.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Annotation of a namespace: `key=value` pairs that admission adds to the node selector of each
/// Pod.
pub const NODE_SELECTOR_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// Annotation of a namespace: allowed IngressClasses. With the suffix [`REGEXP_SUFFIX`]: their
/// pattern.
pub const INGRESS_CLASSES_ANNOTATION: &str = "capsule.clastix.io/ingress-classes";
/// Annotation of a namespace: allowed StorageClasses. With the suffix [`REGEXP_SUFFIX`]: their
/// pattern.
pub const STORAGE_CLASSES_ANNOTATION: &str = "capsule.clastix.io/storage-classes";
/// Annotation of a namespace: allowed registries. With the suffix [`REGEXP_SUFFIX`]: their pattern.
pub const REGISTRIES_ANNOTATION: &str = "capsule.clastix.io/allowed-registries";
/// Suffix of annotations that contain a pattern.
pub const REGEXP_SUFFIX: &str = "-regexp";

/// Annotation prefix of a `ResourceQuota`, before the name of a resource: usage of the whole
/// Tenant.
pub const QUOTA_USED_ANNOTATION: &str = "quota.capsule.clastix.io/used-";
/// Annotation prefix of a `ResourceQuota`, before the name of a resource: limit of the whole
/// Tenant.
pub const QUOTA_HARD_ANNOTATION: &str = "quota.capsule.clastix.io/hard-";

/// Label of a cordoned namespace, in which users of the Tenant cannot change anything.
pub const CORDONED_LABEL: &str = "projectcapsule.dev/cordoned";

/// Label of a ServiceAccount with the value `true`: it owns the Tenant of its namespace.
pub const OWNER_PROMOTION_LABEL: &str = "owner.projectcapsule.dev/promote";
/// Label of a ServiceAccount with the value `true`: the rules of the Tenant grant it ClusterRoles.
pub const PROMOTION_LABEL: &str = "projectcapsule.dev/promote";

/// Finalizer of a Tenant, which is removed when its namespaces no longer exist.
pub const FINALIZER: &str = "controller.projectcapsule.dev/finalize";

/// Annotation of a ClusterRole or ClusterRoleBinding: name of the configuration that it is managed
/// for.
pub const CONFIGURATION_ANNOTATION: &str = "capsule.clastix.io/configuration";
/// Label of objects of Capsule: its component that created the object.
pub const CREATED_BY_LABEL: &str = "projectcapsule.dev/created-by";

/// Value of [`CREATED_BY_LABEL`] and of [`OBJECT_MANAGER_LABEL`] on replicated objects.
pub const REPLICATIONS: &str = "replications";
/// Label of replicated objects of older versions of Capsule.
pub const LEGACY_REPLICATION_LABEL: &str = "capsule.clastix.io/resources";
/// Finalizer of TenantResources and GlobalTenantResources of older versions of Capsule.
pub const LEGACY_REPLICATION_FINALIZER: &str = "capsule.clastix.io/resources";
/// Annotation that requests a reconcile. The controller removes it.
pub const RECONCILE_ANNOTATION: &str = "reconcile.projectcapsule.dev/requestedAt";
/// Label of ClusterRoles whose rules the manager gets.
pub const AGGREGATE_TO_CONTROLLER_LABEL: &str = "projectcapsule.dev/aggregate-to-controller";

/// Default ClusterRole that lets owners create namespaces.
pub const PROVISIONER_ROLE: &str = "capsule-namespace-provisioner";
/// Default ClusterRole that lets owners delete namespaces.
pub const DELETER_ROLE: &str = "capsule-namespace-deleter";

/// Label keys with a meaning for the controller or for Capsule. Other keys of the same domains are
/// free.
pub const RESERVED_LABELS: [&str; 20] = [
    LEGACY_REPLICATION_LABEL,
    "capsule.clastix.io/managed-by",
    TENANT_LABEL,
    LIMIT_RANGE_LABEL,
    NETWORK_POLICY_LABEL,
    RESOURCE_QUOTA_LABEL,
    ROLE_BINDING_LABEL,
    CREATED_BY_LABEL,
    OBJECT_MANAGER_LABEL,
    OBJECT_TENANT_LABEL,
    "projectcapsule.dev/pool",
    "projectcapsule.dev/global-resource-quota",
    "projectcapsule.dev/freeze",
    PROMOTION_LABEL,
    CORDONED_LABEL,
    "projectcapsule.dev/name",
    "projectcapsule.dev/custom-resources",
    "projectcapsule.dev/rule-quota",
    OWNER_PROMOTION_LABEL,
    NAMESPACE_NAME_LABEL,
];

/// Annotation keys that are reserved like [`RESERVED_LABELS`].
const RESERVED_ANNOTATIONS: [&str; 3] =
    ["projectcapsule.dev/release", RECONCILE_ANNOTATION, "capsule.clastix.io/protected"];

/// Annotation keys that are reserved with and without the suffix [`REGEXP_SUFFIX`].
const RESERVED_LISTS: [&str; 5] = [
    INGRESS_CLASSES_ANNOTATION,
    STORAGE_CLASSES_ANNOTATION,
    REGISTRIES_ANNOTATION,
    "capsule.clastix.io/forbidden-namespace-labels",
    "capsule.clastix.io/forbidden-namespace-annotations",
];

/// Annotation prefix of a Tenant, before `<plural>.<group>_<version>`: maximum number of objects of
/// a kind in all its namespaces together.
pub const OBJECT_QUOTA_ANNOTATION: &str = "quota.resources.capsule.clastix.io/";
/// Annotation prefix of a Tenant, like [`OBJECT_QUOTA_ANNOTATION`]: number of existing objects.
pub const OBJECT_COUNT_ANNOTATION: &str = "used.resources.capsule.clastix.io/";
/// Prefixes of annotation keys that are reserved.
const RESERVED_PREFIXES: [&str; 2] = [OBJECT_QUOTA_ANNOTATION, OBJECT_COUNT_ANNOTATION];

/// Returns whether an annotation key is reserved like [`RESERVED_LABELS`].
pub fn is_reserved_annotation(key: &str) -> bool {
    RESERVED_ANNOTATIONS.contains(&key)
        || RESERVED_LISTS.contains(&key.strip_suffix(REGEXP_SUFFIX).unwrap_or(key))
        || RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_annotations_are_exact_keys_and_two_prefixes() {
        for key in [
            "projectcapsule.dev/release",
            "reconcile.projectcapsule.dev/requestedAt",
            "capsule.clastix.io/protected",
            "capsule.clastix.io/ingress-classes",
            "capsule.clastix.io/storage-classes-regexp",
            "capsule.clastix.io/allowed-registries",
            "capsule.clastix.io/forbidden-namespace-labels-regexp",
            "capsule.clastix.io/forbidden-namespace-annotations",
            "quota.resources.capsule.clastix.io/podsets.app.example.com_v1",
            "used.resources.capsule.clastix.io/podsets.app.example.com_v1",
        ] {
            assert!(is_reserved_annotation(key), "{key}");
        }
        for key in [
            "capsule.clastix.io/x",
            "projectcapsule.dev/x",
            "projectcapsule.dev/release-regexp",
            "capsule.clastix.io/protected-regexp",
            "capsule.clastix.io/storage-classes-regexp-regexp",
            "x.capsule.clastix.io/storage-classes",
            "resources.capsule.clastix.io/x",
        ] {
            assert!(!is_reserved_annotation(key), "{key}");
        }
    }
}
