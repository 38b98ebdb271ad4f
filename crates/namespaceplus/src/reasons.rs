//! Condition types of a NamespacePlus, and the reasons of its conditions and Events.

pub use operator_core::conditions::reasons::{
    ACTIVE, ADOPTED, AS_SPECIFIED, CREATED, DELETING, DELIVERED, DENIED, HOOK_FAILED, HOOK_PENDING,
    INVALID_SPEC, NAME_CONFLICT, NAMESPACE_NOT_READY, NO_HOOKS, NOT_OWNED, OWNED_BY_ANOTHER,
    RECONCILE_FAILED, RELEASED, STATUS_UPDATE_FAILED, TERMINATING, WRITE_FAILED,
};

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
