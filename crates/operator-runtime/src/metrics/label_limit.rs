//! Limit for label values that come from outside.

use std::collections::HashSet;

use parking_lot::RwLock;

use super::measure::LabelValue;

/// Maximum number of different values.
const MAX_VALUES: usize = 128;
/// Value that replaces further values.
const OTHER: &str = "other";

/// Limit on the values of a label, which limits the number of series.
#[derive(Default)]
pub(super) struct LabelLimit {
    values: RwLock<HashSet<String>>,
}

impl LabelLimit {
    /// Returns the value itself, or `other` when the limit is reached.
    pub(super) fn value(&self, value: &str) -> LabelValue {
        if self.values.read().contains(value) || self.insert(value) {
            LabelValue::Owned(value.to_owned())
        } else {
            LabelValue::Borrowed(OTHER)
        }
    }

    /// Adds a value. Returns whether the set contains it afterwards.
    fn insert(&self, value: &str) -> bool {
        let mut values = self.values.write();
        values.contains(value) || (values.len() < MAX_VALUES && values.insert(value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_number_of_values() {
        let limit = LabelLimit::default();
        let values: HashSet<_> = (0..10_000).map(|number| limit.value(&format!("value-{number}"))).collect();
        assert_eq!(values.len(), MAX_VALUES + 1);
        assert!(values.contains(OTHER));
        assert_eq!(limit.value("value-0"), "value-0", "the first values must stay");
    }
}
