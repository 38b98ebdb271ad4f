//! How long a watch has failed.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time without another failure after which a watch counts as open again. A failed watch is retried after at
/// most five seconds, and one that goes on from its last version delivers nothing until an object changes.
const QUIET: Duration = Duration::from_secs(15);

/// The present failures of the watches of an informer.
#[derive(Debug, Default)]
pub(super) struct WatchFailure(Mutex<Option<Failures>>);

#[derive(Clone, Copy, Debug)]
struct Failures {
    first: Instant,
    last: Instant,
}

impl WatchFailure {
    /// Records that a watch has failed.
    pub(super) fn record_failure(&self) {
        let (mut failures, now) = (self.0.lock(), Instant::now());
        let first = failures.filter(Failures::are_present).map_or(now, |failures| failures.first);
        *failures = Some(Failures { first, last: now });
    }

    /// Records that a watch has delivered something.
    pub(super) fn record_success(&self) {
        *self.0.lock() = None;
    }

    /// Returns whether the watch fails, and has failed for this time.
    pub(super) fn has_lasted(&self, time: Duration) -> bool {
        self.0.lock().is_some_and(|failures| failures.are_present() && failures.first.elapsed() >= time)
    }
}

impl Failures {
    fn are_present(&self) -> bool {
        self.last.elapsed() < QUIET
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    async fn fail_for_a_minute(failure: &WatchFailure) {
        for _ in 0..=12 {
            failure.record_failure();
            advance(Duration::from_secs(5)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_failures_last_until_a_success_or_until_no_other_follows() {
        let failure = WatchFailure::default();
        assert!(!failure.has_lasted(Duration::ZERO));
        fail_for_a_minute(&failure).await;
        assert!(failure.has_lasted(MINUTE) && !failure.has_lasted(MINUTE * 2));
        failure.record_success();
        assert!(!failure.has_lasted(Duration::ZERO));
        fail_for_a_minute(&failure).await;
        advance(QUIET).await;
        assert!(!failure.has_lasted(MINUTE));
        failure.record_failure();
        assert!(failure.has_lasted(Duration::ZERO) && !failure.has_lasted(MINUTE), "a new series");
    }
}
