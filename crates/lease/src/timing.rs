//! Durations of leader election and their constraints.

use std::time::Duration;

/// Maximum lease duration. A longer duration in a Lease was not written by a candidate, so the
/// wait for a lost leader is bounded.
pub const MAX_LEASE_DURATION: Duration = Duration::from_mins(10);

/// Durations of leader election; see [`Timing::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// Error for durations that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The lease duration is not a whole number of seconds within the limits.
    #[error("the lease duration must be whole seconds, from 1s to 10m")]
    Lease,
    /// The renew deadline is not shorter than the lease duration.
    #[error(
        "the renew deadline must be shorter than the lease duration, so that a leader stops before another one starts"
    )]
    RenewDeadline,
    /// The retry period leaves no time for several attempts.
    #[error(
        "the retry period must be greater than zero and at most a third of the renew deadline, so that a leader has several attempts"
    )]
    Retry,
}

impl Default for Timing {
    /// Returns the defaults of Kubernetes: 15 s, 10 s, and 2 s.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease: seconds(15), renew_deadline: seconds(10), retry: seconds(2) }
    }
}

impl Timing {
    /// Creates and checks the durations.
    ///
    /// - `lease`: how long other candidates wait before they acquire a Lease that is not renewed.
    /// - `renew_deadline`: how long a leader continues after the start of its last successful
    ///   renewal. The rest of the lease duration is the margin for clocks of different speed and
    ///   for writes in flight. The speed of each clock may be off by (lease - deadline) / (lease +
    ///   deadline), which is a fifth with the defaults.
    /// - `retry`: how long to wait after a failed request.
    ///
    /// # Errors
    /// Returns an error if a duration contradicts another.
    pub fn new(lease: Duration, renew_deadline: Duration, retry: Duration) -> Result<Self, TimingError> {
        if lease.subsec_nanos() != 0 || lease.is_zero() || lease > MAX_LEASE_DURATION {
            return Err(TimingError::Lease);
        }
        if renew_deadline >= lease {
            return Err(TimingError::RenewDeadline);
        }
        if retry.is_zero() || retry * 3 > renew_deadline {
            return Err(TimingError::Retry);
        }
        Ok(Self { lease, renew_deadline, retry })
    }

    /// Returns how long other candidates wait before they acquire a Lease that is not renewed.
    pub fn lease(self) -> Duration {
        self.lease
    }

    /// Returns how long a leader continues after the start of its last successful renewal.
    pub fn renew_deadline(self) -> Duration {
        self.renew_deadline
    }

    /// Returns how long to wait after a failed request.
    pub fn retry(self) -> Duration {
        self.retry
    }

    /// Returns the time between the starts of two renewals. It leaves time for a few more attempts
    /// without loading the API server more than necessary.
    pub(crate) fn renewal(self) -> Duration {
        (self.lease / 3).min(self.renew_deadline / 2)
    }

    /// Returns the timeout of one request.
    pub(crate) fn attempt(self) -> Duration {
        self.renew_deadline / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(lease: u64, renew_deadline: u64, retry: u64) -> Result<Timing, TimingError> {
        let [lease, renew_deadline, retry] = [lease, renew_deadline, retry].map(Duration::from_millis);
        Timing::new(lease, renew_deadline, retry)
    }

    #[test]
    fn rejects_inconsistent_durations() {
        assert_eq!(milliseconds(15_000, 10_000, 2_000), Ok(Timing::default()));
        assert_eq!(milliseconds(0, 0, 0), Err(TimingError::Lease));
        assert_eq!(milliseconds(1_500, 1_000, 100), Err(TimingError::Lease));
        assert_eq!(milliseconds(601_000, 1_000, 100), Err(TimingError::Lease));
        assert_eq!(milliseconds(10_000, 10_000, 2_000), Err(TimingError::RenewDeadline));
        assert_eq!(milliseconds(15_000, 10_000, 0), Err(TimingError::Retry));
        assert_eq!(milliseconds(15_000, 10_000, 4_000), Err(TimingError::Retry));
    }

    #[test]
    fn renew_deadline_allows_second_attempt() {
        for timing in [Timing::default(), milliseconds(3_000, 2_000, 500).unwrap()] {
            assert!(timing.renewal() + timing.retry() * 2 <= timing.renew_deadline());
        }
    }
}
