//! Growth of volumes that the API server has refused.
//!
//! Nothing tells when a storage class or a quota has changed, so it is tried again after a while. A new
//! process tries at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use operator_core::quantity::Quantity;
use tokio::time::Instant;

use crate::membership::Serial;

/// Time between two attempts.
pub(crate) const RETRY: Duration = Duration::from_mins(1);

/// The last refusals of one cluster.
#[derive(Debug, Default)]
pub(crate) struct ResizeRefusals(BTreeMap<Serial, Refusal>);

#[derive(Debug)]
struct Refusal {
    /// The size that was refused.
    size: Option<Quantity>,
    message: String,
    at: Instant,
}

impl ResizeRefusals {
    /// Notes the result of an attempt: the words of the API server if it has refused.
    pub(crate) fn note(
        &mut self,
        serial: Serial,
        size: Option<Quantity>,
        refusal: Option<String>,
        at: Instant,
    ) {
        match refusal {
            Some(message) => drop(self.0.insert(serial, Refusal { size, message, at })),
            None => drop(self.0.remove(&serial)),
        }
    }

    /// Returns the members for which this size was refused a moment ago. Forgets refusals of others.
    pub(crate) fn recent(&mut self, size: Option<Quantity>, now: Instant) -> BTreeSet<Serial> {
        self.0.retain(|_, refusal| refusal.size == size);
        let is_recent = |refusal: &Refusal| now.saturating_duration_since(refusal.at) < RETRY;
        self.0.iter().filter(|(_, refusal)| is_recent(refusal)).map(|(serial, _)| *serial).collect()
    }

    /// Returns the words of the API server, by member.
    pub(crate) fn messages(&self) -> BTreeMap<Serial, String> {
        self.0.iter().map(|(serial, refusal)| (*serial, refusal.message.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_holds_for_a_while_and_for_one_size() {
        let (mut refusals, now) = (ResizeRefusals::default(), Instant::now());
        let size = |text: &str| text.parse().ok();
        refusals.note(1, size("2Gi"), Some("no".into()), now);
        refusals.note(2, size("2Gi"), Some("no".into()), now);
        refusals.note(2, size("2Gi"), None, now);
        assert_eq!(refusals.recent(size("2Gi"), now), [1].into());
        assert_eq!(refusals.recent(size("2Gi"), now + RETRY), [].into());
        assert_eq!(refusals.messages(), [(1, "no".to_owned())].into(), "until the next attempt");
        assert_eq!(refusals.recent(size("3Gi"), now), [].into());
        assert!(refusals.messages().is_empty());
    }
}
