//! Condition types and reasons, and Event reasons. The controller's page documents them.

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

/// The namespace is owned and active.
pub const ACTIVE: &str = "Active";
/// Everything matches the spec.
pub const AS_DECLARED: &str = "AsDeclared";
/// The namespace has no NamespacePlus as owner.
pub const NOT_OWNED: &str = "NotOwned";
/// Another NamespacePlus owns the namespace.
pub const TAKEN_BY: &str = "TakenBy";
/// The name is protected, or the API server denied a write.
pub const REFUSED: &str = "Refused";
/// The namespace is being deleted.
pub const TERMINATING: &str = "Terminating";
/// A write failed.
pub const FAILED: &str = "Failed";
/// An object of the same name exists and has another owner.
pub const NAME_TAKEN: &str = "NameTaken";
/// The spec is invalid.
pub const INVALID: &str = "Invalid";
/// The objects in the namespace are not reconciled, because the namespace is not ready.
pub const NAMESPACE_NOT_READY: &str = "NamespaceNotReady";
/// The spec has no hooks.
pub const NO_HOOKS: &str = "NoHooks";
/// All calls that were due are accepted.
pub const DELIVERED: &str = "Delivered";
/// A call is due or will be retried.
pub const HOOK_PENDING: &str = "HookPending";
/// A call failed permanently. Also an Event.
pub const HOOK_FAILED: &str = "HookFailed";
/// Event: the namespace was created.
pub const CREATED: &str = "Created";
/// Event: the namespace was adopted.
pub const ADOPTED: &str = "Adopted";
/// Event: the namespace was released.
pub const RELEASED: &str = "Released";
/// Event: the namespace is deleted with its NamespacePlus.
pub const DELETING: &str = "Deleting";
/// Event: the namespace could not be created, updated, released, or deleted.
pub const FAILED_NAMESPACE: &str = "FailedNamespace";
/// Event: an object in the namespace could not be reconciled.
pub const NOT_AS_DECLARED: &str = "NotAsDeclared";
/// Event: the status could not be written.
pub const FAILED_STATUS: &str = "FailedStatus";
