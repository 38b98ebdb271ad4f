//! Durations in the notation of Go.

use std::time::Duration;

/// Parses `15s`, `1m30s`, or `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse(text).ok_or_else(|| "use a duration such as 15s, 1m30s, or 500ms".to_owned())
}

fn parse(mut text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    loop {
        let (number, rest) = text.split_at_checked(text.find(|letter: char| !letter.is_ascii_digit())?)?;
        let (unit, rest) =
            rest.split_at_checked(rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len()))?;
        let milliseconds: u64 = match unit {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return None,
        };
        let part = number.parse::<u64>().ok()?.checked_mul(milliseconds)?;
        total = total.checked_add(Duration::from_millis(part))?;
        if rest.is_empty() {
            return Some(total);
        }
        text = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_go_durations() {
        for (text, milliseconds) in
            [("15s", 15_000), ("1m30s", 90_000), ("500ms", 500), ("1h0m0s", 3_600_000), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn rejects_other_notations() {
        for text in [
            "",
            "15",
            "s",
            "-15s",
            "15 s",
            "1.5s",
            "15x",
            "ß",
            "99999999999999999999s",
            "9999999999999999999h",
        ] {
            assert!(duration(text).unwrap_err().contains("such as 15s"), "{text}");
        }
    }
}
