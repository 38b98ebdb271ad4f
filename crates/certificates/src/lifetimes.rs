//! Lifetimes of certificates and the time when each is renewed.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How far `notBefore` lies in the past when a certificate is issued, because clocks differ.
const BACKDATED: Duration = Duration::from_mins(5);
/// Minimum lifetime of a serving certificate. Times in certificates are whole seconds.
const SHORTEST: Duration = Duration::from_secs(10);
/// Maximum lifetime of a certificate authority.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);
/// Maximum time during which a new authority is trusted but does not sign.
const LONGEST_PROPAGATION: Duration = Duration::from_mins(10);

/// Lifetimes of certificates. A client certificate has that of a serving certificate. Each certificate is renewed after two thirds of its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    authority: Duration,
    serving: Duration,
}

/// Error for lifetimes that leave no time for renewal or contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifetimesError {
    /// The lifetime leaves no time for renewal.
    #[error(
        "the lifetime of a serving certificate must be at least {SHORTEST:?} (days in production); {0:?} is too short"
    )]
    TooShort(Duration),
    /// The serving certificate outlives its authority.
    #[error(
        "the lifetime of the certificate authority must be at least that of the serving certificate ({serving:?}); {authority:?} is too short"
    )]
    Outlived {
        /// Lifetime of the authority.
        authority: Duration,
        /// Lifetime of the serving certificate.
        serving: Duration,
    },
    /// The end cannot be represented in a certificate.
    #[error("the lifetime of a certificate authority must be at most 100 years; {0:?} is too long")]
    TooLong(Duration),
}

impl Lifetimes {
    /// Creates lifetimes of the authority and of the serving certificate.
    ///
    /// # Errors
    /// Returns an error if they leave no time for renewal or contradict each other.
    pub const fn new(authority: Duration, serving: Duration) -> Result<Self, LifetimesError> {
        if serving.as_nanos() < SHORTEST.as_nanos() {
            return Err(LifetimesError::TooShort(serving));
        }
        if authority.as_nanos() < serving.as_nanos() {
            return Err(LifetimesError::Outlived { authority, serving });
        }
        if authority.as_nanos() > LONGEST.as_nanos() {
            return Err(LifetimesError::TooLong(authority));
        }
        Ok(Self { authority, serving })
    }

    /// Returns the lifetime of a certificate authority.
    pub fn authority(self) -> Duration {
        self.authority
    }

    /// Returns the lifetime of a serving or client certificate, which ends earlier if its authority
    /// does.
    pub fn serving(self) -> Duration {
        self.serving
    }

    /// Returns how long a new authority is trusted before it signs, so that every client trusts it
    /// by then.
    ///
    /// This is 10 minutes, or a twelfth of the lifetime of a serving certificate if that is
    /// shorter. A third of the lifetime is left when a certificate is due, so there is always
    /// enough time.
    pub fn propagation(self) -> Duration {
        LONGEST_PROPAGATION.min(self.serving / 12)
    }
}

impl Default for Lifetimes {
    /// Returns one year for the authority and 90 days for the serving certificate.
    fn default() -> Self {
        Self { authority: Duration::from_hours(365 * 24), serving: Duration::from_hours(90 * 24) }
    }
}

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First moment at which the certificate is valid.
    pub not_before: Timestamp,
    /// First moment at which it is no longer valid.
    pub not_after: Timestamp,
}

impl Validity {
    /// Returns the validity of a certificate that is issued at `now`, in whole seconds and never
    /// longer than `life`.
    pub(crate) fn starting(now: Timestamp, life: Duration) -> Self {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Self { not_before: before(now, BACKDATED), not_after: after(now, life) }
    }

    /// Returns whether the certificate is valid at `now`.
    pub fn covers(self, now: Timestamp) -> bool {
        self.not_before <= now && !self.has_ended(now)
    }

    /// Returns whether the certificate has expired by `now`.
    pub fn has_ended(self, now: Timestamp) -> bool {
        self.not_after <= now
    }

    /// Returns when the certificate was issued, if this crate issued it.
    pub(crate) fn issued_at(self) -> Timestamp {
        after(self.not_before, BACKDATED)
    }

    /// Returns when the certificate has to be renewed: after two thirds of its lifetime.
    pub fn renewal_time(self) -> Timestamp {
        let life = self.issued_at().duration_until(self.not_after).max(SignedDuration::ZERO).unsigned_abs();
        after(self.issued_at(), life / 3 * 2)
    }
}

pub(crate) fn after(time: Timestamp, span: Duration) -> Timestamp {
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

fn before(time: Timestamp, span: Duration) -> Timestamp {
    time.checked_sub(span).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn rejects_invalid_lifetimes_with_reason() {
        for (authority, serving, expected) in [
            (HOUR, Duration::from_secs(9), "9s is too short"),
            (HOUR, HOUR * 2, "3600s is too short"),
            (Duration::MAX, HOUR, "100 years"),
        ] {
            let error = Lifetimes::new(authority, serving).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Lifetimes::new(SHORTEST, SHORTEST).is_ok());
    }

    #[test]
    fn default_lifetimes_are_valid() {
        let default = Lifetimes::default();
        assert_eq!(Lifetimes::new(default.authority, default.serving), Ok(default));
        assert_eq!(default.propagation(), LONGEST_PROPAGATION);
        assert_eq!(Lifetimes::new(HOUR, HOUR).unwrap().propagation(), Duration::from_mins(5));
    }

    #[test]
    fn certificate_is_due_after_two_thirds_of_its_lifetime() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let validity = Validity::starting(now, HOUR);
        assert_eq!(validity.issued_at(), now);
        assert_eq!(validity.renewal_time(), after(now, Duration::from_mins(40)));
        assert!(validity.covers(now) && validity.covers(before(now, BACKDATED)));
        assert!(!validity.covers(after(now, HOUR)));
    }

    #[test]
    fn extreme_timestamps_do_not_panic() {
        let validity = Validity { not_before: Timestamp::MAX, not_after: Timestamp::MIN };
        assert_eq!(validity.renewal_time(), Timestamp::MAX);
        assert_eq!(Validity::starting(Timestamp::MAX, HOUR).not_after, Timestamp::MAX);
    }
}
