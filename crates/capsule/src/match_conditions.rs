//! Match conditions of webhooks. The API server evaluates them itself, so that cluster components
//! and cluster administrators do not depend on the manager.

/// Excludes the components of the cluster: API server, controllers, scheduler, and nodes.
pub const EXCLUDE_SYSTEM_USERS: &str = "!(request.userInfo.username in ['system:apiserver', \
    'system:kube-controller-manager', 'system:kube-scheduler']) && !(has(request.userInfo.groups) && \
    request.userInfo.groups.exists(group, group in ['system:nodes', 'system:serviceaccounts:kube-system']))";

/// Excludes members of `system:masters`.
pub const EXCLUDE_SYSTEM_MASTERS: &str =
    "!(has(request.userInfo.groups) && 'system:masters' in request.userInfo.groups)";
