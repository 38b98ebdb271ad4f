//! Match conditions of webhooks. The API server evaluates them itself, so that cluster components
//! and cluster administrators do not depend on the manager.

/// Excludes members of `system:masters`, except for creates and updates of namespaces that
/// reference a Tenant before or after the request.
pub(super) const EXCLUDE_MASTERS_WITHOUT_TENANT: &str = "!(has(request.userInfo.groups) && 'system:masters' in \
    request.userInfo.groups) || (request.operation != 'DELETE' && [object, oldObject].exists(one, one != null && \
    ((has(one.metadata.labels) && 'capsule.clastix.io/tenant' in one.metadata.labels) || \
    (has(one.metadata.ownerReferences) && one.metadata.ownerReferences.exists(owner, owner.kind == 'Tenant' && \
    owner.apiVersion.startsWith('capsule.clastix.io/'))))))";

/// Includes creates, and changes of labels, annotations, or owner references of a namespace that
/// references a Tenant before or after the request.
pub(super) const CHANGES_TENANT_METADATA: &str = "request.operation == 'CREATE' || \
    ([object, oldObject].exists(one, \
    one.metadata.?labels[?'capsule.clastix.io/tenant'].hasValue() || \
    one.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == 'Tenant' && \
    owner.apiVersion.startsWith('capsule.clastix.io/'))) && \
    (object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) || \
    object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({}) || \
    object.metadata.?ownerReferences.orValue([]) != oldObject.metadata.?ownerReferences.orValue([])))";
