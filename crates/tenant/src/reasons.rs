//! Condition types of a Tenant and of its namespaces, and reasons of conditions and Events.
//!
//! `Ready`, `Cordoned`, `Terminating`, and their reasons are part of Capsule's API.

pub use operator_core::conditions::reasons::{
    ACTIVE, ENFORCED, FAILED, FAILED_DELETE, FINALIZER_FAILED, INVALID_OWNER, LIST_FAILED, NAMESPACE_DENIED,
    NOT_ENFORCED, NOT_IN_EFFECT, PENDING_UNMANAGED_CONTENT, RECONCILE_FAILED, RECONCILING,
    STATUS_UPDATE_FAILED, SUCCEEDED,
};

/// Condition type and reason: the users of the Tenant cannot change anything.
pub const CORDONED: &str = "Cordoned";
/// Condition type and reason: the namespace is being deleted.
pub const TERMINATING: &str = "Terminating";
/// Condition type: every field that is set in the spec is enforced.
pub const FIELDS_ENFORCED: &str = "FieldsEnforced";
