//! Labels, annotations and the finalizer of the contract.

/// On a namespace: the Tenant that it belongs to. An owner reference says the same, and both must agree.
pub const TENANT_LABEL: &str = "capsule.clastix.io/tenant";

/// On an object that the controller made for a Tenant: that Tenant.
pub const OBJECT_TENANT_LABEL: &str = "projectcapsule.dev/tenant";
/// On an object that the controller made for a Tenant: who manages it.
pub const OBJECT_MANAGER_LABEL: &str = "projectcapsule.dev/managed-by";
/// The value of [`OBJECT_MANAGER_LABEL`].
pub const OBJECT_MANAGER: &str = "controller";

/// On a `LimitRange`: its index in the Tenant's list.
pub const LIMIT_RANGE_LABEL: &str = "capsule.clastix.io/limit-range";
/// On a `NetworkPolicy`: its index in the Tenant's list.
pub const NETWORK_POLICY_LABEL: &str = "capsule.clastix.io/network-policy";
/// On a `ResourceQuota`: its index in the Tenant's list.
pub const RESOURCE_QUOTA_LABEL: &str = "capsule.clastix.io/resource-quota";
/// On a `RoleBinding`: the hash of its role and subjects.
pub const ROLE_BINDING_LABEL: &str = "capsule.clastix.io/role-binding";

/// On a namespace: the label that the API server itself keeps equal to the name. On a Tenant: the same, by our webhook.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// On a namespace: `key=value` pairs that the scheduler's admission adds to the node selector of each pod.
pub const NODE_SELECTOR_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// On a namespace: the allowed ingress classes; with the suffix [`REGEXP_SUFFIX`], their pattern.
pub const INGRESS_CLASSES_ANNOTATION: &str = "capsule.clastix.io/ingress-classes";
/// On a namespace: the allowed storage classes; with the suffix [`REGEXP_SUFFIX`], their pattern.
pub const STORAGE_CLASSES_ANNOTATION: &str = "capsule.clastix.io/storage-classes";
/// On a namespace: the allowed registries; with the suffix [`REGEXP_SUFFIX`], their pattern.
pub const REGISTRIES_ANNOTATION: &str = "capsule.clastix.io/allowed-registries";
/// See [`INGRESS_CLASSES_ANNOTATION`].
pub const REGEXP_SUFFIX: &str = "-regexp";

/// On a `ResourceQuota`, with a resource's name after it: how much of it the whole Tenant uses.
pub const QUOTA_USED_ANNOTATION: &str = "quota.capsule.clastix.io/used-";
/// On a `ResourceQuota`, with a resource's name after it: how much of it the whole Tenant may use.
pub const QUOTA_HARD_ANNOTATION: &str = "quota.capsule.clastix.io/hard-";

/// On a namespace: whether its people may change nothing in it.
pub const CORDONED_LABEL: &str = "projectcapsule.dev/cordoned";

/// Holds a Tenant until its namespaces are gone.
pub const FINALIZER: &str = "controller.projectcapsule.dev/finalize";

/// On a cluster role or its binding that is made for the configuration: the configuration's name.
pub const CONFIGURATION_ANNOTATION: &str = "capsule.clastix.io/configuration";
/// On what another implementation of the API has made: which part of it did so.
pub const CREATED_BY_LABEL: &str = "projectcapsule.dev/created-by";

/// Lets a subject create namespaces of its Tenant.
pub const PROVISIONER_ROLE: &str = "capsule-namespace-provisioner";
/// Lets a subject delete namespaces of its Tenant.
pub const DELETER_ROLE: &str = "capsule-namespace-deleter";

/// Keys of labels that mean something to the controller, or to another implementation of the API. Other keys of the same
/// domains are free.
pub const RESERVED_LABELS: [&str; 20] = [
    "capsule.clastix.io/resources",
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
    "projectcapsule.dev/promote",
    CORDONED_LABEL,
    "projectcapsule.dev/name",
    "projectcapsule.dev/custom-resources",
    "projectcapsule.dev/rule-quota",
    "owner.projectcapsule.dev/promote",
    NAMESPACE_NAME_LABEL,
];

/// Keys of annotations that are reserved like [`RESERVED_LABELS`].
const RESERVED_ANNOTATIONS: [&str; 3] = [
    "projectcapsule.dev/release",
    "reconcile.projectcapsule.dev/requestedAt",
    "capsule.clastix.io/protected",
];

/// Keys of annotations that are reserved by themselves and with the suffix [`REGEXP_SUFFIX`].
const RESERVED_LISTS: [&str; 5] = [
    INGRESS_CLASSES_ANNOTATION,
    STORAGE_CLASSES_ANNOTATION,
    REGISTRIES_ANNOTATION,
    "capsule.clastix.io/forbidden-namespace-labels",
    "capsule.clastix.io/forbidden-namespace-annotations",
];

/// Beginnings of keys of annotations that count objects of one kind.
const RESERVED_PREFIXES: [&str; 2] =
    ["quota.resources.capsule.clastix.io", "used.resources.capsule.clastix.io"];

/// Returns whether a key of an annotation is reserved like [`RESERVED_LABELS`].
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
