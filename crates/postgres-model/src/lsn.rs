//! Positions in the write-ahead log (WAL).

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Most digits of each half, as in `pg_lsn_in_internal` of `pg_lsn.c`.
const MAX_DIGITS: usize = 8;

/// Log sequence number: a byte position in the WAL, as `pg_lsn` prints it, such as `16/B374D848`.
///
/// Zero is what PostgreSQL calls `InvalidXLogRecPtr`: no WAL record starts there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Lsn(pub u64);

impl Lsn {
    /// The position before the first record: `InvalidXLogRecPtr`.
    pub const INVALID: Self = Self(0);

    /// Returns the bytes from `earlier` to this position. Returns `None` if `earlier` is later.
    pub fn bytes_since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

/// Error of a text that is no position in the WAL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a position in the write-ahead log: write two hexadecimal numbers of at most eight \
     digits with a slash between them, such as 16/B374D848"
)]
pub struct ParseLsnError(String);

/// Parses what the input function of the type `pg_lsn` accepts (`pg_lsn.c`).
impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, ParseLsnError> {
        let halves = text.split_once('/').and_then(|(high, low)| Some((half(high)?, half(low)?)));
        let (high, low) = halves.ok_or_else(|| ParseLsnError(text.to_owned()))?;
        Ok(Self(u64::from(high) << 32 | u64::from(low)))
    }
}

/// Parses one half of a position: one to eight hexadecimal digits.
pub(crate) fn half(digits: &str) -> Option<u32> {
    let is_valid = digits.len() <= MAX_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_valid.then(|| u32::from_str_radix(digits, 16).ok())?
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & u64::from(u32::MAX))
    }
}

impl TryFrom<String> for Lsn {
    type Error = ParseLsnError;

    fn try_from(text: String) -> Result<Self, ParseLsnError> {
        text.parse()
    }
}

impl From<Lsn> for String {
    fn from(lsn: Lsn) -> Self {
        lsn.to_string()
    }
}

impl JsonSchema for Lsn {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Lsn".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_what_pg_lsn_accepts() {
        for (text, expected) in [
            ("0/0", 0),
            ("16/B374D848", 0x16_B374_D848),
            ("16/b374d848", 0x16_B374_D848),
            ("00000001/0000000A", 0x1_0000_000A),
            ("FFFFFFFF/FFFFFFFF", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Lsn(expected)), "{text}");
        }
    }

    #[test]
    fn rejects_what_pg_lsn_rejects() {
        for text in [
            "",
            "/",
            "0",
            "0/",
            "/0",
            "0/0/0",
            " 0/0",
            "0/0 ",
            "+1/0",
            "-1/0",
            "G/0",
            "000000000/0",
            "0/100000000",
        ] {
            let error = text.parse::<Lsn>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("\"{text}\" is not a position")), "{error}");
        }
    }

    #[test]
    fn subtracts_only_earlier_positions() {
        assert_eq!(Lsn(0x2_0000_0000).bytes_since(Lsn(0x1_FFFF_FFFF)), Some(1));
        assert_eq!(Lsn(1).bytes_since(Lsn(1)), Some(0));
        assert_eq!(Lsn(1).bytes_since(Lsn(2)), None);
    }

    #[test]
    fn json_is_the_text() {
        assert_eq!(serde_json::to_string(&Lsn(0x10_0000_00FF)).unwrap(), "\"10/FF\"");
        assert_eq!(serde_json::from_str::<Lsn>("\"10/ff\"").unwrap(), Lsn(0x10_0000_00FF));
        assert!(serde_json::from_str::<Lsn>("4096").is_err());
    }

    proptest! {
        #[test]
        fn display_parses_back_and_keeps_the_order(a: u64, b: u64) {
            prop_assert_eq!(Lsn(a).to_string().parse(), Ok(Lsn(a)));
            prop_assert_eq!(Lsn(a).cmp(&Lsn(b)), a.cmp(&b));
            prop_assert_eq!(Lsn(a).bytes_since(Lsn(b)).is_some(), a >= b);
        }

        #[test]
        fn accepted_text_renders_back(text in "\\PC*|[0-9A-Fa-f]{0,9}/[0-9A-Fa-f]{0,9}") {
            if let Ok(lsn) = text.parse::<Lsn>() {
                prop_assert_eq!(lsn.to_string().parse(), Ok(lsn));
                prop_assert!(text.len() <= 17);
            }
        }
    }
}
