//! Hexadecimal numbers in the names of WAL files.

/// Number of digits of a 32-bit number in the name of a WAL file.
const WIDTH: usize = 8;

/// Splits a 32-bit number of exactly eight uppercase digits from the start of a text.
///
/// `IsXLogFileName` of `xlog_internal.h` accepts uppercase digits only.
pub(crate) fn split(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(WIDTH)?;
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    let number = u32::from_str_radix(digits, 16).ok()?;
    digits.bytes().all(is_digit).then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_eight_uppercase_digits() {
        assert_eq!(split("0000000A.history"), Some((10, ".history")));
        assert_eq!(split("FFFFFFFF"), Some((u32::MAX, "")));
        for text in ["", "0000000", "0000000a", "+0000001", "0000000é", "000000 1"] {
            assert_eq!(split(text), None, "{text}");
        }
    }
}
