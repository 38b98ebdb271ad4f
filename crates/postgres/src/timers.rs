//! How long observations have held, as far as this process knows.
//!
//! A new process begins at zero, so it waits longer, and never decides too early.

use std::{collections::HashMap, time::Duration};

use postgres_model::failover::FailoverState;
use tokio::time::Instant;

use crate::resize_refusals::ResizeRefusals;

/// Timers of all clusters, by the UIDs of the clusters.
pub(crate) type Timers = HashMap<String, ClusterTimers>;

/// Timers of one cluster.
#[derive(Default)]
pub(crate) struct ClusterTimers {
    /// Stored state of the failover.
    pub(crate) state: Timer<FailoverState>,
    /// Names of the standbys that stream. `None` while the primary does not run.
    pub(crate) standbys: Timer<Option<Vec<String>>>,
    /// Whether a person has fenced the primary.
    pub(crate) fenced: Timer<bool>,
    /// Volumes that the API server does not let grow.
    pub(crate) refusals: ResizeRefusals,
}

/// How long a value has been the same.
pub(crate) struct Timer<T>(Option<(T, Instant)>);

impl<T> Default for Timer<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> Timer<T> {
    /// Observes the value, and returns how long it has been the same.
    pub(crate) fn observe(&mut self, value: T, now: Instant) -> Duration {
        let age = self.age(&value, now);
        if age.is_none() {
            self.0 = Some((value, now));
        }
        age.unwrap_or_default()
    }

    /// Returns since when the last observed value has been the same.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.0.as_ref().map(|(_, since)| *since)
    }

    /// Returns how long the value has been the same, or `None` if another one was observed last.
    pub(crate) fn age(&self, value: &T, now: Instant) -> Option<Duration> {
        let (_, since) = self.0.as_ref().filter(|(known, _)| known == value)?;
        Some(now.saturating_duration_since(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_from_the_last_change() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut timer = Timer::default();
        for (value, at, expected) in [("a", 0, 0), ("a", 3, 3), ("b", 5, 0), ("b", 6, 1), ("a", 7, 0)] {
            assert_eq!(timer.observe(value, start + second * at), second * expected);
        }
    }
}
