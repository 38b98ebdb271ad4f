//! Condition types of a NamespacePlus.

/// Condition: the namespace is owned and active, with its labels and annotations.
pub const NAMESPACE_READY: &str = "NamespaceReady";
/// Condition: the ResourceQuota and the LimitRange are up to date.
pub const QUOTA_READY: &str = "QuotaReady";
/// Condition: the NetworkPolicies and PodDisruptionBudgets are up to date.
pub const POLICIES_READY: &str = "PoliciesReady";
/// Condition: the RoleBindings are up to date.
pub const ACCESS_READY: &str = "AccessReady";
/// Condition: all hook calls that were due are accepted.
pub const HOOKS_DELIVERED: &str = "HooksDelivered";
