//! Condition types of a Tenant and of its namespaces, and the reasons of conditions and Events.
//!
//! The types and reasons of `Ready`, `Cordoned` and `Terminating` are part of Capsule's API.

pub use operator_core::conditions::reasons::{
    ACTIVE, ENFORCED, FAILED, FAILED_DELETE, FINALIZER_FAILED, INVALID_OWNER, LIST_FAILED, NAMESPACE_DENIED,
    NOT_ENFORCED, NOT_IN_EFFECT, PENDING_UNMANAGED_CONTENT, RECONCILE_FAILED, RECONCILING,
    STATUS_UPDATE_FAILED, SUCCEEDED,
};

/// Condition, and its reason: the users of the Tenant can change nothing.
pub const CORDONED: &str = "Cordoned";
/// Condition of a namespace, and its reason: the namespace is being deleted.
pub const TERMINATING: &str = "Terminating";
/// Condition: every field that the spec sets is enforced.
pub const FIELDS_ENFORCED: &str = "FieldsEnforced";
