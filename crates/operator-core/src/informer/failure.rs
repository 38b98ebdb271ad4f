//! How long a cache has not been kept up to date.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time after which an open watch ends a series of failures. A watch that goes on from its last version delivers
/// nothing until an object changes.
const QUIET: Duration = Duration::from_secs(15);

/// The present failures of the watches of an informer, and requests without a response.
#[derive(Debug, Default)]
pub(super) struct WatchFailure(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Time of the first failure, or of the request that came before it.
    since: Option<Instant>,
    /// Time at which the present watch was opened.
    opened: Option<Instant>,
}

impl WatchFailure {
    /// Records that a watch has failed, or is requested.
    pub(super) fn record_interruption(&self) {
        let mut state = self.0.lock();
        let since = state.since.filter(|_| !state.is_open()).unwrap_or_else(Instant::now);
        *state = State { since: Some(since), opened: None };
    }

    /// Records that the API server has accepted a watch.
    pub(super) fn record_open(&self) {
        self.0.lock().opened = Some(Instant::now());
    }

    /// Records that a watch has delivered something.
    pub(super) fn record_success(&self) {
        *self.0.lock() = State::default();
    }

    /// Returns whether no watch is open, for at least this time.
    pub(super) fn has_lasted(&self, time: Duration) -> bool {
        let state = self.0.lock();
        !state.is_open() && state.since.is_some_and(|since| since.elapsed() >= time)
    }
}

impl State {
    fn is_open(&self) -> bool {
        self.opened.is_some_and(|opened| opened.elapsed() >= QUIET)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    async fn fail_for_a_minute(failure: &WatchFailure) {
        for _ in 0..2 {
            failure.record_interruption();
            advance(MINUTE / 2).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_last_until_a_watch_delivers_or_stays_open() {
        let failure = WatchFailure::default();
        assert!(!failure.has_lasted(Duration::ZERO));
        fail_for_a_minute(&failure).await;
        assert!(failure.has_lasted(MINUTE) && !failure.has_lasted(MINUTE * 2));
        failure.record_success();
        assert!(!failure.has_lasted(Duration::ZERO));
        fail_for_a_minute(&failure).await;
        failure.record_open();
        assert!(failure.has_lasted(MINUTE), "it can fail at once");
        failure.record_interruption();
        advance(QUIET).await;
        assert!(failure.has_lasted(MINUTE), "it has failed at once");
        failure.record_open();
        advance(QUIET).await;
        assert!(!failure.has_lasted(Duration::ZERO));
        failure.record_interruption();
        assert!(failure.has_lasted(Duration::ZERO) && !failure.has_lasted(MINUTE), "a new series");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_is_renewed_has_not_failed() {
        let failure = WatchFailure::default();
        for _ in 0..3 {
            failure.record_interruption();
            failure.record_open();
            advance(MINUTE).await;
            assert!(!failure.has_lasted(Duration::ZERO));
        }
    }
}
