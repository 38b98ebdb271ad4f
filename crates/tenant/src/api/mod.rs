//! The API of `capsule.clastix.io`: one module for each version that is served.
//!
//! Field names, defaults, names of objects, labels and annotations are the contract with programs and
//! manifests that exist already, and are kept to the letter.

mod definition;
pub mod names;
mod schema;
pub mod v1alpha1;
pub mod v1beta1;
pub mod v1beta2;

pub(crate) use definition::crd;
