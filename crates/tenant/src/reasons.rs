//! Reasons of the conditions and Events of a Tenant and of its namespaces.
//!
//! The reasons of `Ready`, `Cordoned`, and `Terminating` are part of Capsule's API.

pub use operator_core::conditions::reasons::{
    ACTIVE, CORDONED, ENFORCED, FAILED, FAILED_DELETE, FINALIZER_FAILED, INVALID_OWNER, LIST_FAILED,
    MISSING_RIGHT, NAMESPACE_DENIED, NOT_ENFORCED, NOT_IN_EFFECT, NOT_IN_TENANT, PENDING_UNMANAGED_CONTENT,
    RECONCILE_FAILED, RECONCILING, STATUS_UPDATE_FAILED, SUCCEEDED, TERMINATING,
};
