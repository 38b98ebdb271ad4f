//! ValidatingAdmissionPolicies, which also hold while the manager is down. Namespaces of the
//! cluster cannot belong to a Tenant, and the names of managed objects are reserved.

use k8s_openapi::api::{
    core::v1::{LimitRange, Namespace, ResourceQuota},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use operator_core::{
    admission::{CREATE, Policy, UPDATE, target},
    manifests::webhooks::EXEMPT_NAMESPACES,
};

use super::in_tenants;

/// A namespace of the cluster, in addition to the namespaces that are exempt from all webhooks.
const DEFAULT: &str = "default";

/// Forbids the label. An existing label may stay, so that other updates of the namespace succeed.
const NO_LABEL: &str = "!has(object.metadata.labels) || !('capsule.clastix.io/tenant' in object.metadata.labels) || \
    (oldObject != null && has(oldObject.metadata.labels) && 'capsule.clastix.io/tenant' in oldObject.metadata.labels && \
    oldObject.metadata.labels['capsule.clastix.io/tenant'] == object.metadata.labels['capsule.clastix.io/tenant'])";
/// Forbids owner references to Tenants. Existing ones may stay.
const NO_REFERENCE: &str = "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(owner, \
    owner.kind != 'Tenant' || !owner.apiVersion.startsWith('capsule.clastix.io/') || \
    (oldObject != null && has(oldObject.metadata.ownerReferences) && \
    oldObject.metadata.ownerReferences.exists(old, old.uid == owner.uid && old.name == owner.name)))";

/// Forbids the names that the manager uses in this Tenant, except for users who may patch the
/// Tenant: the manager and administrators.
///
/// Generated names are set before the policy is evaluated.
const NO_RESERVED_NAME: &str = "!(request.resource.resource == 'rolebindings' ? \
    object.metadata.name.startsWith('capsule:managed:') : \
    object.metadata.name.startsWith('capsule-' + namespaceObject.metadata.labels['capsule.clastix.io/tenant'] + '-')) || \
    authorizer.group('capsule.clastix.io').resource('tenants')\
    .name(namespaceObject.metadata.labels['capsule.clastix.io/tenant']).check('patch').allowed()";

/// Returns the policies of the controller.
pub(crate) fn policies(manager_namespace: &str) -> Vec<Policy> {
    let cause = "this namespace is part of the cluster and cannot belong to a Tenant";
    vec![
        Policy::new("system-namespaces")
            .on(target::<Namespace>(CREATE | UPDATE))
            .on(target::<Namespace>(UPDATE).subresource("status"))
            .on(target::<Namespace>(UPDATE).subresource("finalize"))
            .named(EXEMPT_NAMESPACES.into_iter().chain([DEFAULT, manager_namespace]))
            .validation(NO_LABEL, format!("{cause}: remove the label capsule.clastix.io/tenant"))
            .validation(NO_REFERENCE, format!("{cause}: remove owner references to Tenants")),
        Policy::new("reserved-names")
            .on(target::<LimitRange>(CREATE))
            .on(target::<NetworkPolicy>(CREATE))
            .on(target::<ResourceQuota>(CREATE))
            .on(target::<RoleBinding>(CREATE))
            .in_namespaces(in_tenants())
            .validation(
                NO_RESERVED_NAME,
                "names that begin with capsule-<tenant>- (RoleBindings: capsule:managed:) are reserved for objects of the \
                 Tenant controller: choose another name",
            ),
    ]
}
