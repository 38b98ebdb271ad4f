//! Types and reasons of conditions, which are part of the contract but for `FieldsEnforced`, and of Events.

/// Condition: the people of the Tenant may change nothing.
pub const CORDONED: &str = "Cordoned";
/// Condition of a namespace: it is being deleted.
pub const TERMINATING: &str = "Terminating";
/// Condition: everything that the spec sets is enforced. Ready and Cordoned speak of what there is already.
pub const FIELDS_ENFORCED: &str = "FieldsEnforced";

/// Reason of Ready: all is as the spec asks.
pub const SUCCEEDED: &str = "Succeeded";
/// Reason of Ready: something could not be done.
pub const FAILED: &str = "Failed";
/// Reason of Ready: a new spec is being worked on.
pub const RECONCILING: &str = "Reconciling";
/// Reason of Ready: the configuration is not the one that counts.
pub const NOT_IN_EFFECT: &str = "NotInEffect";
/// Reason of Cordoned: the Tenant is in use.
pub const ACTIVE: &str = "Active";
/// Reason of Terminating: something in the namespace holds up its deletion.
pub const PENDING_CONTENT: &str = "PendingUnmanagedContent";
/// Reason of FieldsEnforced: nothing is left out.
pub const ENFORCED: &str = "Enforced";
/// Reason of FieldsEnforced: some fields have no effect in this version.
pub const NOT_YET_ENFORCED: &str = "NotYetEnforced";

/// Event about a Tenant: something that somebody wanted of one of its namespaces was refused.
pub const NAMESPACE_DENIED: &str = "NamespaceDenied";
