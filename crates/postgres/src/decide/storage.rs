//! Lets the volumes of the members grow to the size of the spec.

use std::collections::BTreeSet;

use operator_core::quantity::Quantity;

use super::{Action, Observed, Volume};
use crate::membership::{Membership, Serial};

/// What decides about the size of volumes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Storage {
    /// Size in the spec. `None` if it is not readable: nothing grows then.
    pub(crate) size: Option<Quantity>,
    /// Members whose volumes the API server refused to grow a moment ago.
    pub(crate) refused: BTreeSet<Serial>,
}

/// Sizes of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimSize {
    /// Requested size.
    pub(crate) request: Option<Quantity>,
    /// Present size, once the claim is bound.
    pub(crate) capacity: Option<Quantity>,
    /// Whether it is bound. The API server lets no other claim grow.
    pub(crate) is_bound: bool,
    /// What the claim tells about its growth.
    pub(crate) note: Option<String>,
}

impl ClaimSize {
    /// Returns whether the claim requests less than this size.
    pub(crate) fn requests_less_than(&self, size: Quantity) -> bool {
        self.request.is_some_and(|request| request < size)
    }

    /// Returns whether the volume is smaller than the claim requests.
    pub(crate) fn grows(&self) -> bool {
        self.request.zip(self.capacity).is_some_and(|(request, capacity)| capacity < request)
    }
}

/// Returns the growth of the volumes that request less than the spec. None shrinks.
pub(super) fn growth(observed: &Observed, next: &Membership) -> Vec<Action> {
    let Some(size) = observed.storage.size else { return Vec::new() };
    let is_small = |volume: &Volume| {
        let size_now = &volume.size;
        volume.is_ours && !volume.is_terminating && size_now.is_bound && size_now.requests_less_than(size)
    };
    let grow = |serial: Serial, known: Option<&String>| {
        let volume = observed.volumes.get(&serial).filter(|volume| known == Some(&volume.uid))?;
        let is_due = is_small(volume) && !observed.storage.refused.contains(&serial);
        is_due.then(|| Action::GrowVolume(serial, volume.uid.clone()))
    };
    next.staying().filter_map(|member| grow(member.serial, member.volume_uid.as_ref())).collect()
}
