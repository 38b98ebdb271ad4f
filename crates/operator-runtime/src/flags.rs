//! Values of flags.

use std::{net::SocketAddr, time::Duration};

/// Address of a server. `None` disables the server.
#[derive(Clone, Copy, Debug)]
pub struct Address(pub Option<SocketAddr>);

/// Parses an address with a port, such as `127.0.0.1:8081` or `:8081`, or `0`, which disables the server.
///
/// # Errors
/// Returns a message for the user if the text is not an address.
pub fn address(text: &str) -> Result<Address, String> {
    if text == "0" {
        return Ok(Address(None));
    }
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse()
        .map(|address| Address(Some(address)))
        .map_err(|_| "use an address and port such as 127.0.0.1:8081, or 0 to disable it".to_owned())
}

/// Parses a duration in the notation of Go, such as `15s`, `1m30s`, or `500ms`.
///
/// # Errors
/// Returns a message for the user if the text is not a duration.
pub fn duration(text: &str) -> Result<Duration, String> {
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
