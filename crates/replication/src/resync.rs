//! `spec.resyncPeriod`. Pure.

use std::time::Duration;

/// Units of Go's durations in nanoseconds.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];
/// Shortest period, so that a typing error such as 1ns does not keep the API server busy.
const MIN: Duration = Duration::from_secs(1);
/// Longest period. A longer one exceeds what a timer can wait.
const MAX: Duration = Duration::from_hours(24 * 365);

/// Returns a duration in Go's format, between one second and one year. Returns `None` for zero,
/// which disables the resync, and the default for an invalid text, which the schema rejects.
pub(crate) fn period(text: &str) -> Option<Duration> {
    let nanoseconds = nanoseconds(text).unwrap_or(6e10);
    if nanoseconds <= 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(nanoseconds / 1e9).unwrap_or(MAX).clamp(MIN, MAX))
}

/// Returns the period with up to 10 % more, so that objects that were created together do not stay
/// together. `fraction` is between 0 and 1.
pub(crate) fn with_jitter(period: Duration, fraction: f64) -> Duration {
    period + period.mul_f64(0.1 * fraction.clamp(0.0, 1.0))
}

fn nanoseconds(text: &str) -> Option<f64> {
    if text == "0" {
        return Some(0.0);
    }
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_durations_of_go() {
        let seconds = |text: &str| period(text).map(|period| period.as_secs());
        assert_eq!(seconds("60s"), Some(60));
        assert_eq!(seconds("1h30m"), Some(5400));
        assert_eq!(seconds("1.5m"), Some(90));
        assert_eq!(seconds("1500ms"), Some(1));
        assert_eq!((seconds("0"), seconds("0s")), (None, None));
        assert_eq!(seconds("1ns"), Some(1), "at least a second");
        assert_eq!(seconds("99999999h"), Some(365 * 24 * 3600));
        assert_eq!((seconds(""), seconds("never"), seconds("5")), (Some(60), Some(60), Some(60)));
    }

    proptest! {
        #[test]
        fn any_text_is_accepted(text in "[0-9.a-zµ ]{0,12}", fraction in -1.0_f64..2.0) {
            if let Some(period) = period(&text) {
                let jittered = with_jitter(period, fraction);
                prop_assert!(jittered >= period && jittered <= period.mul_f64(1.11));
            }
        }
    }
}
