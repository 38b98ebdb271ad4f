//! Pauses between attempts that fail.

use std::time::Duration;

use postgres_model::instance::Moment;

/// First and longest pause.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Attempts to start something that failed in a row.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    failures: u32,
    epoch: Option<u64>,
    not_before: Moment,
}

impl Retry {
    /// Forgets failures of an earlier epoch.
    pub(super) fn set_epoch(&mut self, epoch: Option<u64>) {
        if self.epoch != epoch {
            *self = Self { epoch, ..Self::default() };
        }
    }

    /// Notes a failure: the next attempt waits, twice as long as the last one.
    pub(super) fn failed(&mut self, now: Moment) {
        self.not_before = now + FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures += 1;
    }

    /// Notes a success.
    pub(super) fn succeeded(&mut self) {
        *self = Self { epoch: self.epoch, ..Self::default() };
    }

    /// Returns the number of failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns whether the next attempt is due.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        now >= self.not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_a_success_or_another_epoch() {
        let mut retry = Retry::default();
        retry.set_epoch(Some(1));
        let now = Duration::from_secs(100);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert!(retry.is_due(now));
            retry.failed(now);
            let pause = Duration::from_secs(seconds);
            assert!(!retry.is_due(now + pause / 2) && retry.is_due(now + pause));
            retry.not_before = now;
        }
        retry.set_epoch(Some(1));
        assert_eq!(retry.failures(), 7);
        retry.set_epoch(Some(2));
        assert_eq!(retry.failures(), 0);
        retry.failed(now);
        retry.succeeded();
        assert!(retry.is_due(now));
    }
}
