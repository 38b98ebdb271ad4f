//! Texts from outside, for messages.

/// Returns a text on one line, without control characters and with at most `limit` letters.
pub(crate) fn printable(text: &str, limit: usize) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_short_and_on_one_line() {
        assert_eq!(printable("a\n\x1b[2Jé\0", 100), "a[2Jé");
        assert_eq!(printable(&"é".repeat(1000), 3), "ééé");
    }
}
