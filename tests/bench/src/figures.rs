//! Calculation and output of measured figures.

use std::time::Duration;

/// Prints one figure.
pub(crate) fn print(label: &str, value: f64, unit: &str) {
    println!("{label:<46} {value:8.1} {unit}");
}

/// Prints one figure that is small, with three decimal places.
pub(crate) fn print_exactly(label: &str, value: f64, unit: &str) {
    println!("{label:<46} {value:8.3} {unit}");
}

/// Returns a percentile of sorted times in milliseconds, by nearest rank.
pub(crate) fn percentile(times: &[Duration], percent: usize) -> f64 {
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied().map_or(0.0, milliseconds)
}

/// Converts a count to a figure.
pub(crate) fn count(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_nearest_rank() {
        let times: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert!((percentile(&times, 50) - 50.0).abs() < f64::EPSILON);
        assert!((percentile(&times, 99) - 99.0).abs() < f64::EPSILON);
        assert!((percentile(&times, 100) - 100.0).abs() < f64::EPSILON);
        assert!(percentile(&[], 50).abs() < f64::EPSILON);
    }
}
