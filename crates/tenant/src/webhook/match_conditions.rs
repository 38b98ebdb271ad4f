//! Which requests concern Tenants at all. The API server evaluates this by itself, so that who runs a cluster never
//! waits for the manager.

/// The cluster's own programs: its API server, controllers, scheduler and nodes.
pub(super) const NOT_THE_SYSTEM: &str = "!(request.userInfo.username in ['system:apiserver', \
    'system:kube-controller-manager', 'system:kube-scheduler']) && !(has(request.userInfo.groups) && \
    request.userInfo.groups.exists(group, group in ['system:nodes', 'system:serviceaccounts:kube-system']))";

/// Whoever may do everything, unless they make or change a namespace that has to do with a Tenant, before or after.
pub(super) const CONCERNS_A_TENANT: &str = "!(has(request.userInfo.groups) && 'system:masters' in \
    request.userInfo.groups) || (request.operation != 'DELETE' && [object, oldObject].exists(one, one != null && \
    ((has(one.metadata.labels) && 'capsule.clastix.io/tenant' in one.metadata.labels) || \
    (has(one.metadata.ownerReferences) && one.metadata.ownerReferences.exists(owner, owner.kind == 'Tenant' && \
    owner.apiVersion.startsWith('capsule.clastix.io/'))))))";

/// Whoever may do everything.
pub(super) const NOT_A_MASTER: &str =
    "!(has(request.userInfo.groups) && 'system:masters' in request.userInfo.groups)";

/// A namespace that is made, or is given other labels, annotations or owner references while it names a Tenant, before or
/// after.
pub(super) const CHANGES_WHAT_A_TENANT_GIVES: &str = "request.operation == 'CREATE' || \
    ([object, oldObject].exists(one, \
    one.metadata.?labels[?'capsule.clastix.io/tenant'].hasValue() || \
    one.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == 'Tenant' && \
    owner.apiVersion.startsWith('capsule.clastix.io/'))) && \
    (object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) || \
    object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({}) || \
    object.metadata.?ownerReferences.orValue([]) != oldObject.metadata.?ownerReferences.orValue([])))";
