//! Reasons of conditions and Events.

pub use operator_core::conditions::reasons::{
    ACTIVE, CORDONED, FAILED, FINALIZER_FAILED, RECONCILE_FAILED, RECONCILING, STATUS_UPDATE_FAILED,
    SUCCEEDED, WRITE_FAILED,
};
