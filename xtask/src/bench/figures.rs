//! How figures are made and printed.

use std::time::Duration;

/// Prints one figure.
pub(super) fn print(what: &str, value: f64, unit: &str) {
    println!("{what:<46} {value:8.1} {unit}");
}

/// A percentile of sorted times, in milliseconds.
pub(super) fn percentile(times: &[Duration], percent: usize) -> f64 {
    let place = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(place).copied().map_or(0.0, milliseconds)
}

/// A number of things, as a figure.
pub(super) fn count(things: usize) -> f64 {
    f64::from(u32::try_from(things).unwrap_or(u32::MAX))
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_sorted_times() {
        let times: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert!((percentile(&times, 50) - 51.0).abs() < f64::EPSILON);
        assert!((percentile(&times, 99) - 100.0).abs() < f64::EPSILON);
        assert!(percentile(&[], 50).abs() < f64::EPSILON);
    }
}
