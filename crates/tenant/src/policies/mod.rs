//! What the spec of a Tenant allows in its namespaces. Pure.
//!
//! ```text
//! pods       registries, pull policies, classes, and metadata of Pods
//! ingresses  host names of Ingresses
//! services   types, external addresses, and keys of Services
//! gateways   Gateways and their classes
//! devices    DeviceClasses of ResourceClaims
//! keys       forbidden keys of labels and annotations
//! volumes    PersistentVolumes of PersistentVolumeClaims
//! labels     labels of namespaces that select the webhooks for Pods and Services
//! ```

pub(crate) mod devices;
pub(crate) mod gateways;
pub(crate) mod ingresses;
pub(crate) mod keys;
pub(crate) mod labels;
pub(crate) mod pods;
pub(crate) mod services;
pub(crate) mod volumes;

/// Why a policy of a Tenant denies an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Reason of the Event.
    pub(crate) reason: &'static str,
    /// Field, cause, and what is allowed.
    pub(crate) message: String,
}

impl Violation {
    pub(crate) fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message }
    }
}
