//! Condition types of a Tenant and of its namespaces.
//!
//! `Ready`, `Cordoned`, and `Terminating` are part of Capsule's API.

/// Condition: the users of the Tenant cannot change anything.
pub const CORDONED: &str = "Cordoned";
/// Condition: the namespace is being deleted.
pub const TERMINATING: &str = "Terminating";
/// Condition: every field that is set in the spec is enforced.
pub const FIELDS_ENFORCED: &str = "FieldsEnforced";
