//! Rate limit for writes, in case another client keeps reverting them.

use std::time::Duration;

use operator_core::rate_limit::{Rate, TokenBucket};

/// Far above what rotation needs and far below what loads an API server.
const RATE: Rate = Rate { burst: 10, interval: Duration::from_secs(2) };

/// Token bucket for writes.
#[derive(Debug, Default)]
pub(crate) struct WriteLimiter(TokenBucket);

impl WriteLimiter {
    /// Takes one token at `uptime`.
    ///
    /// # Errors
    /// Returns how long to wait if the limit is reached.
    pub(crate) fn acquire(&mut self, uptime: Duration) -> Result<(), Duration> {
        self.0.take(RATE, uptime)
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
        assert_eq!(burst, usize::try_from(RATE.burst).unwrap());
        assert_eq!(limiter.acquire(now), Err(RATE.interval));
        assert_eq!(limiter.acquire(now + RATE.interval), Ok(()));
        assert_eq!(limiter.acquire(now + RATE.interval), Err(RATE.interval));
    }
}
