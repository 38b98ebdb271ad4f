//! Rate limit for writes, in case another client keeps reverting them.

use std::time::Duration;

/// Number of writes that may follow each other immediately.
const BURST: u32 = 10;
/// Minimum average time between two writes.
const INTERVAL: Duration = Duration::from_secs(2);

/// Token bucket for writes. Its limit is far above what rotation needs and far below what loads an API server.
#[derive(Debug, Default)]
pub(crate) struct WriteLimiter {
    /// Uptime at which the bucket is full again.
    spent_until: Duration,
}

impl WriteLimiter {
    /// Takes one token at `uptime`.
    ///
    /// # Errors
    /// Returns how long to wait if the limit is reached.
    pub(crate) fn acquire(&mut self, uptime: Duration) -> Result<(), Duration> {
        let spent_until = self.spent_until.max(uptime) + INTERVAL;
        let wait = spent_until.saturating_sub(uptime).saturating_sub(INTERVAL * BURST);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.spent_until = spent_until;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_limited_after_a_burst() {
        let mut limiter = WriteLimiter::default();
        let now = Duration::from_hours(1);
        let burst = (0..100).filter(|_| limiter.acquire(now).is_ok()).count();
        assert_eq!(burst, usize::try_from(BURST).unwrap());
        assert_eq!(limiter.acquire(now), Err(INTERVAL));
        assert_eq!(limiter.acquire(now + INTERVAL), Ok(()));
        assert_eq!(limiter.acquire(now + INTERVAL), Err(INTERVAL));
    }
}
