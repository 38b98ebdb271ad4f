//! Limit for label values that come from outside.

use std::collections::HashSet;

use parking_lot::RwLock;

use super::measure::LabelValue;

/// Maximum number of different values.
const MOST: usize = 128;
/// Value that replaces all further ones.
const OTHER: &str = "other";

/// Values of a label so far. Bounds the number of series.
#[derive(Default)]
pub(super) struct LabelLimit {
    said: RwLock<HashSet<String>>,
}

impl LabelLimit {
    /// Returns the value itself, or `other` when the limit is reached.
    pub(super) fn value(&self, value: &str) -> LabelValue {
        if self.said.read().contains(value) || self.is_taken_in(value) {
            LabelValue::Owned(value.to_owned())
        } else {
            LabelValue::Borrowed(OTHER)
        }
    }

    fn is_taken_in(&self, value: &str) -> bool {
        let mut said = self.said.write();
        said.contains(value) || (said.len() < MOST && said.insert(value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_number_of_values() {
        let limit = LabelLimit::default();
        let said: HashSet<_> = (0..10_000).map(|number| limit.value(&format!("value-{number}"))).collect();
        assert_eq!(said.len(), MOST + 1);
        assert!(said.contains(OTHER));
        assert_eq!(limit.value("value-0"), "value-0", "what was there first stays");
    }
}
