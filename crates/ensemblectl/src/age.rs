//! Durations in the notation of kubectl. Pure.

use jiff::{SignedDuration, Timestamp};

/// Returns the time from `since` to `now` as kubectl prints it, for example `12s`, `3m`, or `5h`.
///
/// A negative duration, from a clock that is behind, is `0s`.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    human_duration(now.duration_since(since))
}

/// Formats a duration, rounded down to one unit.
pub(crate) fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_durations_down_to_one_unit() {
        let formatted: Vec<_> = [-5, 0, 119, 120, 7_199, 7_200, 172_799, 172_800]
            .map(|seconds| human_duration(SignedDuration::from_secs(seconds)))
            .into();
        assert_eq!(formatted, ["0s", "0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }
}
