//! ValidatingAdmissionPolicies, which also hold while the manager is down. Namespaces of the
//! cluster cannot belong to a Tenant, the names of managed objects are reserved, and owners keep the
//! forbidden labels and annotations of nodes.

use capsule::{
    api::v1beta2::{CONFIGURATION_NAME, CapsuleConfiguration},
    match_conditions::{EXCLUDE_SYSTEM_MASTERS, EXCLUDE_SYSTEM_USERS},
};
use k8s_openapi::api::{
    core::v1::{LimitRange, Namespace, Node, ResourceQuota},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use operator_core::{
    admission::{CREATE, FailurePolicy, Policy, UPDATE, target},
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

/// Includes changes of labels and annotations. The components of the cluster update nodes all the
/// time.
const METADATA_CHANGES: &str = "object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) || \
    object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})";
/// Includes the users in the status of the configuration, except for administrators and ignored
/// groups.
const BY_CAPSULE_USER: &str = "!request.userInfo.?groups.orValue([]).exists(group, \
    group in params.spec.?ignoreUserWithGroups.orValue([])) && \
    [params.?status.?users.orValue([]), params.spec.?administrators.orValue([])].map(users, users.exists(user, \
    user.kind == 'Group' ? user.name in request.userInfo.?groups.orValue([]) : \
    user.name == request.userInfo.username)) == [true, false]";

/// Returns the expression that an update keeps the keys and values that a list of the configuration
/// forbids. `field` is `labels` or `annotations`.
fn keeps_forbidden(field: &str, list: &str) -> String {
    let list = format!("params.spec.?nodeMetadata.?{list}");
    let is_forbidden = format!(
        "key in {list}.?denied.orValue([]) || ({list}.?deniedRegex.orValue('') != '' && \
         key.matches({list}.?deniedRegex.orValue('')))"
    );
    format!(
        "[object, oldObject].all(one, one.metadata.?{field}.orValue({{}}).all(key, !({is_forbidden}) || \
         object.metadata.?{field}[?key] == oldObject.metadata.?{field}[?key]))"
    )
}

/// Returns the policy for labels and annotations of nodes. A webhook on nodes could keep a cluster
/// from starting. For the same reason, an error of this policy denies nothing.
fn node_metadata() -> Policy {
    let cause = |keys: &str, field: &str| {
        format!(
            "some {keys} are marked as forbidden: spec.nodeMetadata.{field} of the CapsuleConfiguration \
             {CONFIGURATION_NAME} does not allow you to add, change, or remove them"
        )
    };
    Policy::new("node-metadata")
        .on(target::<Node>(UPDATE))
        .parameter::<CapsuleConfiguration>(CONFIGURATION_NAME)
        .failure_policy(FailurePolicy::Ignore)
        .match_condition("metadata-changes", METADATA_CHANGES)
        .match_condition("not-by-the-cluster", EXCLUDE_SYSTEM_USERS)
        .match_condition("not-by-masters", EXCLUDE_SYSTEM_MASTERS)
        .match_condition("by-capsule-user", BY_CAPSULE_USER)
        .validation(keeps_forbidden("labels", "forbiddenLabels"), cause("labels", "forbiddenLabels"))
        .validation(
            keeps_forbidden("annotations", "forbiddenAnnotations"),
            cause("annotations", "forbiddenAnnotations"),
        )
}

/// Returns the policies of the controller.
pub(crate) fn policies(manager_namespace: &str) -> Vec<Policy> {
    let cause = "this namespace is part of the cluster and cannot belong to a Tenant";
    vec![
        node_metadata(),
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
