//! Token buckets, which limit how often something is done. Pure: the caller passes the time from
//! [`fence::now`].
//!
//! [`fence::now`]: crate::fence::now

use std::time::Duration;

/// Rate of a [`TokenBucket`]: a number of tokens immediately, and then one token in each interval.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Maximum number of tokens that can be taken at once.
    pub burst: u32,
    /// Time until one token is added again.
    pub interval: Duration,
}

/// Tokens that are taken at a [`Rate`]. A new bucket is full.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    /// When the bucket is full again.
    full_at: Duration,
}

impl TokenBucket {
    /// Takes one token at `now`.
    ///
    /// # Errors
    /// Returns how long to wait if there is no token.
    pub fn take(&mut self, rate: Rate, now: Duration) -> Result<(), Duration> {
        let full_at = self.full_at.max(now) + rate.interval;
        let wait = full_at.saturating_sub(now).saturating_sub(rate.interval * rate.burst);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.full_at = full_at;
        Ok(())
    }

    /// Returns whether all tokens are back at `now`.
    pub fn is_full(&self, now: Duration) -> bool {
        self.full_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RATE: Rate = Rate { burst: 3, interval: SECOND };

    #[test]
    fn allows_a_burst_and_then_one_token_per_interval() {
        let (mut bucket, now) = (TokenBucket::default(), Duration::from_hours(1));
        let taken = |bucket: &mut TokenBucket, at: Duration| {
            (0..10).filter(|_| bucket.take(RATE, at).is_ok()).count()
        };
        assert_eq!(taken(&mut bucket, now), 3);
        assert_eq!(taken(&mut bucket, now + SECOND / 2), 0);
        assert_eq!(taken(&mut bucket, now + SECOND), 1);
        assert_eq!(taken(&mut bucket, now + 3 * SECOND), 2);
        assert_eq!(taken(&mut bucket, now + 100 * SECOND), 3, "no more than the burst");
    }

    #[test]
    fn empty_bucket_returns_the_wait() {
        let (mut bucket, now) = (TokenBucket::default(), Duration::from_hours(1));
        let burst = (0..100).filter(|_| bucket.take(RATE, now).is_ok()).count();
        assert_eq!(burst, 3);
        assert_eq!(bucket.take(RATE, now), Err(SECOND));
        assert_eq!(bucket.take(RATE, now + SECOND), Ok(()));
        assert_eq!(bucket.take(RATE, now + SECOND), Err(SECOND));
        assert!(!bucket.is_full(now + SECOND) && bucket.is_full(now + 100 * SECOND));
    }
}
