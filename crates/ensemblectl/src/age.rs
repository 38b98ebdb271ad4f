//! How long something has been so, in one or two units as kubectl writes it. Pure.

use jiff::{SignedDuration, Timestamp};

/// The time from `since` to `now`: `12s`, `3m`, `5h`, `2d`. A clock that is behind makes it `0s`.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    words(now.duration_since(since))
}

/// A duration, roughly.
pub(crate) fn words(duration: SignedDuration) -> String {
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
    fn ages_are_told_in_the_unit_that_says_most() {
        let told: Vec<_> = [-5, 0, 119, 120, 7_199, 7_200, 172_799, 172_800]
            .map(|seconds| words(SignedDuration::from_secs(seconds)))
            .into();
        assert_eq!(told, ["0s", "0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }
}
