//! The database system identifier, which `initdb` chooses.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Database system identifier of `pg_control`. All members of a cluster have the same one.
///
/// In JSON it is a string, because many programs read the numbers of JSON as floating-point numbers
/// and would round it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SystemIdentifier(pub u64);

/// Error of a text that is no system identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a database system identifier: write the decimal number that pg_controldata prints")]
pub struct ParseSystemIdentifierError(String);

/// Parses a decimal number without a sign and without leading zeros.
impl FromStr for SystemIdentifier {
    type Err = ParseSystemIdentifierError;

    fn from_str(text: &str) -> Result<Self, ParseSystemIdentifierError> {
        let number = text.parse().map(Self).ok().filter(|number| number.to_string() == text);
        number.ok_or_else(|| ParseSystemIdentifierError(text.to_owned()))
    }
}

impl fmt::Display for SystemIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for SystemIdentifier {
    type Error = ParseSystemIdentifierError;

    fn try_from(text: String) -> Result<Self, ParseSystemIdentifierError> {
        text.parse()
    }
}

impl From<SystemIdentifier> for String {
    fn from(identifier: SystemIdentifier) -> Self {
        identifier.to_string()
    }
}

impl JsonSchema for SystemIdentifier {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SystemIdentifier".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]{1,20}$" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_is_a_string() {
        let identifier = SystemIdentifier(u64::MAX);
        assert_eq!(serde_json::to_string(&identifier).unwrap(), "\"18446744073709551615\"");
        assert_eq!(serde_json::from_str::<SystemIdentifier>("\"18446744073709551615\"").unwrap(), identifier);
        assert!(serde_json::from_str::<SystemIdentifier>("18446744073709551615").is_err());
    }

    #[test]
    fn one_number_has_one_text() {
        for text in ["", "+1", "-1", "01", "1 ", "0x1", "18446744073709551616"] {
            assert_eq!(text.parse::<SystemIdentifier>(), Err(ParseSystemIdentifierError(text.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn accepted_text_renders_back(text in "\\PC*|[0-9]{0,21}") {
            if let Ok(identifier) = text.parse::<SystemIdentifier>() {
                prop_assert_eq!(identifier.to_string(), text);
            }
        }
    }
}
