//! What holds whether the manager runs or not: the cluster's own namespaces belong to no Tenant, and the names of what the
//! manager keeps in the namespaces of Tenants are reserved.

use k8s_openapi::api::{
    core::v1::{LimitRange, Namespace, ResourceQuota},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use operator_core::admission::{CREATE, Policy, UPDATE, configuration::EXEMPT, target};

use super::in_tenants;

/// Part of every cluster, like those that no webhook is asked about.
const DEFAULT: &str = "default";

/// A label that was there before stays where it is: what a cluster needs is never held up by what it has.
const NO_LABEL: &str = "!has(object.metadata.labels) || !('capsule.clastix.io/tenant' in object.metadata.labels) || \
    (oldObject != null && has(oldObject.metadata.labels) && 'capsule.clastix.io/tenant' in oldObject.metadata.labels && \
    oldObject.metadata.labels['capsule.clastix.io/tenant'] == object.metadata.labels['capsule.clastix.io/tenant'])";
/// As for the label.
const NO_REFERENCE: &str = "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(owner, \
    owner.kind != 'Tenant' || !owner.apiVersion.startsWith('capsule.clastix.io/') || \
    (oldObject != null && has(oldObject.metadata.ownerReferences) && \
    oldObject.metadata.ownerReferences.exists(old, old.uid == owner.uid && old.name == owner.name)))";

/// The name is none that the manager uses in this Tenant, or whoever asks may change the Tenant: the manager, and who
/// administers the cluster or the Tenant. They decide about what stands under the name anyway.
///
/// A name that the API server makes up is in the object by then.
const NO_RESERVED_NAME: &str = "!(request.resource.resource == 'rolebindings' ? \
    object.metadata.name.startsWith('capsule:managed:') : \
    object.metadata.name.startsWith('capsule-' + namespaceObject.metadata.labels['capsule.clastix.io/tenant'] + '-')) || \
    authorizer.group('capsule.clastix.io').resource('tenants')\
    .name(namespaceObject.metadata.labels['capsule.clastix.io/tenant']).check('patch').allowed()";

/// The policies of the controller.
pub(crate) fn policies(manager_namespace: &str) -> Vec<Policy> {
    let part_of = "is part of the cluster, and belongs to no Tenant";
    vec![
        Policy::new("system-namespaces")
            .on(target::<Namespace>(CREATE | UPDATE))
            .on(target::<Namespace>(UPDATE).subresource("status"))
            .on(target::<Namespace>(UPDATE).subresource("finalize"))
            .named(EXEMPT.into_iter().chain([DEFAULT, manager_namespace]))
            .holds(
                NO_LABEL,
                format!("this namespace {part_of}: leave out the label capsule.clastix.io/tenant"),
            )
            .holds(NO_REFERENCE, format!("this namespace {part_of}: leave out owner references to Tenants")),
        Policy::new("reserved-names")
            .on(target::<LimitRange>(CREATE))
            .on(target::<NetworkPolicy>(CREATE))
            .on(target::<ResourceQuota>(CREATE))
            .on(target::<RoleBinding>(CREATE))
            .in_namespaces(in_tenants())
            .holds(
                NO_RESERVED_NAME,
                "names that begin with capsule-<tenant>- (of RoleBindings: capsule:managed:) are reserved for what the Tenant \
                 controller makes: choose another name",
            ),
    ]
}
