//! How long leadership lasts, and what must hold of these times.

use std::time::Duration;

/// No lease lasts longer. So a duration beyond it that stands in a Lease was not written by a manager, and a wait
/// for a lost leader has an end.
pub const LONGEST: Duration = Duration::from_mins(10);

/// The times of an election; see [`Timing::checked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// Times that no election can be held with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A Lease holds whole seconds.
    #[error("the lease duration must be whole seconds, from 1s to 10m")]
    Lease,
    /// A leader must have stopped before another may begin.
    #[error(
        "the renew deadline must be shorter than the lease duration: a leader stops before others may begin"
    )]
    RenewDeadline,
    /// A leader needs several attempts.
    #[error(
        "the retry period must be longer than nothing and at most a third of the renew deadline, so that a leader has several attempts"
    )]
    Retry,
}

impl Default for Timing {
    /// Kubernetes' own: 15 s, 10 s, 2 s.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease: seconds(15), renew_deadline: seconds(10), retry: seconds(2) }
    }
}

impl Timing {
    /// The times of an election.
    ///
    /// - `lease`: how long others leave a Lease alone that is not renewed.
    /// - `renew_deadline`: how long a leader goes on after the start of its last renewal that succeeded. What is left
    ///   of the lease then is the margin for clocks that run at different speeds, and for writes on their way: two
    ///   clocks may differ by (lease - deadline) / (lease + deadline) each, a fifth with the defaults.
    /// - `retry`: how long to wait after a request that failed.
    ///
    /// # Errors
    /// When they do not fit each other.
    pub fn checked(lease: Duration, renew_deadline: Duration, retry: Duration) -> Result<Self, TimingError> {
        if lease.subsec_nanos() != 0 || lease.is_zero() || lease > LONGEST {
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

    /// How long others leave a Lease alone that is not renewed.
    pub fn lease(self) -> Duration {
        self.lease
    }

    /// How long a leader goes on after the start of its last renewal that succeeded.
    pub fn renew_deadline(self) -> Duration {
        self.renew_deadline
    }

    /// How long to wait after a request that failed.
    pub fn retry(self) -> Duration {
        self.retry
    }

    /// How long after the start of a renewal the next one begins: early enough for a few more attempts, and no more
    /// often, for every manager of a cluster costs the API server this much.
    pub(super) fn renewal(self) -> Duration {
        (self.lease / 3).min(self.renew_deadline / 2)
    }

    /// How long one request may take.
    pub(super) fn attempt(self) -> Duration {
        self.renew_deadline / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(lease: u64, renew_deadline: u64, retry: u64) -> Result<Timing, TimingError> {
        let [lease, renew_deadline, retry] = [lease, renew_deadline, retry].map(Duration::from_millis);
        Timing::checked(lease, renew_deadline, retry)
    }

    #[test]
    fn times_that_do_not_fit_are_refused() {
        assert_eq!(milliseconds(15_000, 10_000, 2_000), Ok(Timing::default()));
        assert_eq!(milliseconds(0, 0, 0), Err(TimingError::Lease));
        assert_eq!(milliseconds(1_500, 1_000, 100), Err(TimingError::Lease));
        assert_eq!(milliseconds(601_000, 1_000, 100), Err(TimingError::Lease));
        assert_eq!(milliseconds(10_000, 10_000, 2_000), Err(TimingError::RenewDeadline));
        assert_eq!(milliseconds(15_000, 10_000, 0), Err(TimingError::Retry));
        assert_eq!(milliseconds(15_000, 10_000, 4_000), Err(TimingError::Retry));
    }

    #[test]
    fn a_leader_has_time_for_a_second_attempt() {
        for timing in [Timing::default(), milliseconds(3_000, 2_000, 500).unwrap()] {
            assert!(timing.renewal() + timing.retry() * 2 <= timing.renew_deadline());
        }
    }
}
