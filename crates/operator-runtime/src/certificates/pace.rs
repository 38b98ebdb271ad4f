//! Keeps two who disagree from writing at full speed.

use std::time::Duration;

/// How many writes may follow each other at once.
const BURST: u32 = 10;
/// How often there may be one in the long run.
const INTERVAL: Duration = Duration::from_secs(2);

/// Says when one more write is too many. Far above what rotation needs, far below what hurts the API server.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When all that was written would have been written at the even pace.
    spent_until: Duration,
}

impl Pace {
    /// Takes in that there is something to write at `uptime`.
    ///
    /// # Errors
    /// When it is too many; the value says how long to wait.
    pub(super) fn ask(&mut self, uptime: Duration) -> Result<(), Duration> {
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
    fn a_burst_is_allowed_and_then_one_write_in_a_while() {
        let mut pace = Pace::default();
        let now = Duration::from_hours(1);
        let burst = (0..100).filter(|_| pace.ask(now).is_ok()).count();
        assert_eq!(burst, usize::try_from(BURST).unwrap());
        assert_eq!(pace.ask(now), Err(INTERVAL));
        assert_eq!(pace.ask(now + INTERVAL), Ok(()));
        assert_eq!(pace.ask(now + INTERVAL), Err(INTERVAL));
    }
}
