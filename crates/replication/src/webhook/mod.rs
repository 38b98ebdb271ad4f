//! Admission webhooks.
//!
//! ```text
//! templates            rejects specs whose templates do not compile
//! replicated_objects   denies writes to the objects that a replication has created
//! ```

mod replicated_objects;
mod templates;

use operator_core::admission::Webhook;

use crate::resource::Replication;

/// Returns the webhooks of the controller of a kind.
pub(crate) fn webhooks<K: Replication>() -> Vec<Webhook> {
    vec![templates::webhook::<K>(), replicated_objects::webhook::<K>()]
}
