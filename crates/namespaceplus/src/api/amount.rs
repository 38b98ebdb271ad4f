//! Amounts of a resource.

use std::{borrow::Cow, fmt};

use operator_core::quantity::{NON_NEGATIVE_PATTERN, ParseQuantityError, Quantity};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// amount is a number, or a quantity such as `500m` or `2Gi`.
///
/// Holds the text unparsed, because the schema accepts some invalid quantities, and one invalid
/// object must not prevent the others from being read. [`Amount::quantity`] parses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Amount(String);

impl Amount {
    /// Creates an amount from text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Parses the amount.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a quantity.
    pub fn quantity(&self) -> Result<Quantity, ParseQuantityError> {
        self.0.parse()
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrText)
    }
}

/// Reads `10` as well as `"10"`, as Kubernetes does for quantities.
struct NumberOrText;

impl de::Visitor<'_> for NumberOrText {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a quantity")
    }

    fn visit_str<E>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount::new(text))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount::new(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount::new(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Amount, E> {
        Ok(Amount::new(number.to_string()))
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number, or a quantity such as 500m or 2Gi.",
            "x-kubernetes-int-or-string": true,
            "maxLength": 32,
            "pattern": NON_NEGATIVE_PATTERN,
            "minimum": 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Amount {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn number_equals_its_text() {
        assert_eq!(read(json!(10)), read(json!("10")));
        assert_eq!(read(json!(0.5)).quantity(), read(json!("500m")).quantity());
    }

    #[test]
    fn invalid_amount_is_read_and_rejected_later() {
        assert!(read(json!("lots")).quantity().is_err());
        assert!(read(json!(1e300)).quantity().is_err());
    }
}
