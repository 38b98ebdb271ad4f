//! API of `capsule.clastix.io`, one module for each version.
//!
//! Field names, defaults, names of objects, labels, and annotations are exactly those of Capsule,
//! for compatibility with existing manifests and programs.

mod definition;
pub mod names;
pub mod proxy_settings;
mod schema;
pub mod v1alpha1;
pub mod v1beta1;
pub mod v1beta2;

pub use definition::crd;
