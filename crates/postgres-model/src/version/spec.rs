//! The field `version` of a spec, as a user wrote it.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{ParseVersionError, Version};

/// Version in a spec: an integer such as `17`, or a string such as `"17.6"`.
///
/// Keeps what was written, so an object with an invalid version can be read and reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionSpec {
    /// An integer.
    Int(i64),
    /// A string.
    String(String),
}

impl VersionSpec {
    /// Parses the version.
    ///
    /// # Errors
    /// Returns an error that says what to write.
    pub fn parse(&self) -> Result<Version, ParseVersionError> {
        match self {
            Self::Int(number) => number.to_string().parse(),
            Self::String(text) => text.parse(),
        }
    }
}

/// Prints the version as it was written.
impl fmt::Display for VersionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl Serialize for VersionSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for VersionSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = VersionSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a version: an integer such as 17, or a string in quotes such as \"17.6\"")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<VersionSpec, E> {
        Ok(VersionSpec::Int(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<VersionSpec, E> {
        let number = i64::try_from(number);
        number.map(VersionSpec::Int).map_err(|_| E::custom("the version is too large a number"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<VersionSpec, E> {
        Ok(VersionSpec::String(text.to_owned()))
    }
}

impl JsonSchema for VersionSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "VersionSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(json: &str) -> Result<VersionSpec, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn integer_and_string_are_the_same_version() {
        assert_eq!(spec("17").unwrap().parse(), spec("\"17\"").unwrap().parse());
        assert_eq!(spec("\"9.6.3\"").unwrap().to_string(), "9.6.3");
    }

    #[test]
    fn invalid_versions_can_be_read() {
        assert!(matches!(spec("\"18beta1\"").unwrap().parse(), Err(ParseVersionError::Unreleased(_))));
        assert!(matches!(spec("-17").unwrap().parse(), Err(ParseVersionError::Malformed(_))));
    }

    #[test]
    fn fraction_must_be_in_quotes() {
        let error = spec("17.6").unwrap_err();
        assert!(
            error.contains("expected a version: an integer such as 17, or a string in quotes"),
            "{error}"
        );
        assert!(spec("18446744073709551615").is_err() && spec("null").is_err() && spec("[17]").is_err());
    }

    proptest! {
        #[test]
        fn json_is_kept(text: String, number: i64) {
            for spec in [VersionSpec::String(text), VersionSpec::Int(number)] {
                let json = serde_json::to_string(&spec).unwrap();
                prop_assert_eq!(serde_json::from_str::<VersionSpec>(&json).unwrap(), spec.clone());
                let _ = spec.parse();
            }
        }
    }
}
