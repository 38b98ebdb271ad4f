//! How long certificates last, and when they are replaced.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Certificates are valid from so long before they are made, for clocks differ.
pub(super) const BACKDATED: Duration = Duration::from_mins(5);
/// The shortest life of a serving certificate. Times in certificates are whole seconds.
const SHORTEST: Duration = Duration::from_secs(10);
/// The longest life of an authority.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);
/// The longest time for which an authority is only trusted, before it signs.
const LONGEST_PROPAGATION: Duration = Duration::from_mins(10);

/// How long certificates last. Each is replaced when two thirds of its life are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    authority: Duration,
    serving: Duration,
}

/// Lifetimes that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifetimesError {
    /// There would be no time for a replacement.
    #[error(
        "a serving certificate has to last for {SHORTEST:?} at least, and in production for days; {0:?} is too short"
    )]
    TooShort(Duration),
    /// The serving certificate would outlive its authority.
    #[error(
        "a certificate authority has to last as long as the serving certificate ({serving:?}) at least; {authority:?} is too short"
    )]
    Outlived {
        /// Of the authority.
        authority: Duration,
        /// Of the serving certificate.
        serving: Duration,
    },
    /// The end would lie beyond what can be written into a certificate.
    #[error("a certificate authority may last for 100 years; {0:?} is too long")]
    TooLong(Duration),
}

impl Lifetimes {
    /// Lifetimes of the authority and of the serving certificate.
    ///
    /// # Errors
    /// When they leave no time for replacements, or contradict each other.
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

    /// The life of an authority.
    pub fn authority(self) -> Duration {
        self.authority
    }

    /// The life of a serving certificate, unless its authority ends earlier.
    pub fn serving(self) -> Duration {
        self.serving
    }

    /// How long a new authority is trusted before it signs: by then everybody who trusts the old one trusts it, too.
    ///
    /// 10 minutes, or a twelfth of the life of a serving certificate if that is less: in the third that is left of
    /// a life when the replacement is due, there is always time for it.
    pub fn propagation(self) -> Duration {
        LONGEST_PROPAGATION.min(self.serving / 12)
    }
}

impl Default for Lifetimes {
    /// One year for the authority, 90 days for the serving certificate.
    fn default() -> Self {
        Self { authority: Duration::from_hours(365 * 24), serving: Duration::from_hours(90 * 24) }
    }
}

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

impl Validity {
    /// Of a certificate that is made now: in whole seconds, as certificates have them, never longer than asked.
    pub(super) fn starting(now: Timestamp, life: Duration) -> Self {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Self { not_before: before(now, BACKDATED), not_after: after(now, life) }
    }

    pub(super) fn covers(self, now: Timestamp) -> bool {
        self.not_before <= now && !self.has_ended(now)
    }

    pub(super) fn has_ended(self, now: Timestamp) -> bool {
        self.not_after <= now
    }

    /// When the certificate was made, if we made it.
    pub(super) fn made(self) -> Timestamp {
        after(self.not_before, BACKDATED)
    }

    /// When it should be replaced.
    pub(super) fn due(self) -> Timestamp {
        let life = self.made().duration_until(self.not_after).max(SignedDuration::ZERO).unsigned_abs();
        after(self.made(), life / 3 * 2)
    }
}

pub(super) fn after(time: Timestamp, span: Duration) -> Timestamp {
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
    fn lifetimes_that_cannot_work_are_refused_with_the_reason() {
        for (authority, serving, says) in [
            (HOUR, Duration::from_secs(9), "9s is too short"),
            (HOUR, HOUR * 2, "3600s is too short"),
            (Duration::MAX, HOUR, "100 years"),
        ] {
            let error = Lifetimes::new(authority, serving).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(Lifetimes::new(SHORTEST, SHORTEST).is_ok());
    }

    #[test]
    fn the_defaults_are_lifetimes_that_work() {
        let default = Lifetimes::default();
        assert_eq!(Lifetimes::new(default.authority, default.serving), Ok(default));
        assert_eq!(default.propagation(), LONGEST_PROPAGATION);
        assert_eq!(Lifetimes::new(HOUR, HOUR).unwrap().propagation(), Duration::from_mins(5));
    }

    #[test]
    fn a_certificate_is_due_when_two_thirds_of_its_life_are_over() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let validity = Validity::starting(now, HOUR);
        assert_eq!(validity.made(), now);
        assert_eq!(validity.due(), after(now, Duration::from_mins(40)));
        assert!(validity.covers(now) && validity.covers(before(now, BACKDATED)));
        assert!(!validity.covers(after(now, HOUR)));
    }

    #[test]
    fn the_ends_of_time_are_no_end_of_the_program() {
        let validity = Validity { not_before: Timestamp::MAX, not_after: Timestamp::MIN };
        assert_eq!(validity.due(), Timestamp::MAX);
        assert_eq!(Validity::starting(Timestamp::MAX, HOUR).not_after, Timestamp::MAX);
    }
}
