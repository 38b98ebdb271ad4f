//! The words that stand in conditions and Events for programs to read. The page of the kind has them all.

/// Condition: the namespace is there, usable and ours, with its labels and annotations.
pub const NAMESPACE_READY: &str = "NamespaceReady";
/// Condition: the quota and the limits are as declared.
pub const QUOTA_READY: &str = "QuotaReady";
/// Condition: the network policies and disruption budgets are as declared.
pub const POLICIES_READY: &str = "PoliciesReady";
/// Condition: the role bindings are as declared.
pub const ACCESS_READY: &str = "AccessReady";
/// Condition: all calls to other systems that were due have been taken.
pub const HOOKS_DELIVERED: &str = "HooksDelivered";

/// The namespace is there, usable and ours.
pub const ACTIVE: &str = "Active";
/// All is as the spec says.
pub const AS_DECLARED: &str = "AsDeclared";
/// The namespace is somebody else's.
pub const NOT_OWNED: &str = "NotOwned";
/// The namespace is another NamespacePlus'.
pub const TAKEN_BY: &str = "TakenBy";
/// It must not be, or the API server refused.
pub const REFUSED: &str = "Refused";
/// The namespace is being deleted.
pub const TERMINATING: &str = "Terminating";
/// The API server could not do it.
pub const FAILED: &str = "Failed";
/// An object of that name is there which we did not make.
pub const NAME_TAKEN: &str = "NameTaken";
/// The declaration makes no sense.
pub const INVALID: &str = "Invalid";
/// Nothing is done inside a namespace that is not ready.
pub const NAMESPACE_NOT_READY: &str = "NamespaceNotReady";
/// No hooks are declared.
pub const NO_HOOKS: &str = "NoHooks";
/// All calls that were due have been taken.
pub const DELIVERED: &str = "Delivered";
/// A call is still to be made, or to be made again.
pub const HOOK_PENDING: &str = "HookPending";
/// A call was given up. Also an Event.
pub const HOOK_FAILED: &str = "HookFailed";
/// Event: the namespace was made.
pub const CREATED: &str = "Created";
/// Event: an administrator handed the namespace over.
pub const ADOPTED: &str = "Adopted";
/// Event: the namespace was left as it is.
pub const RELEASED: &str = "Released";
/// Event: the namespace is deleted with its NamespacePlus.
pub const DELETING: &str = "Deleting";
/// Event: the namespace could not be made, changed, released or deleted.
pub const FAILED_NAMESPACE: &str = "FailedNamespace";
/// Event: something inside the namespace is not as declared.
pub const NOT_AS_DECLARED: &str = "NotAsDeclared";
/// Event: the status could not be written.
pub const FAILED_STATUS: &str = "FailedStatus";
