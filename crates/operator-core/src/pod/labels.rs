//! Labels in little memory.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What stands between a key and its value, and behind a value. Neither may have it.
const KEY_ENDS: char = '=';
const VALUE_ENDS: char = ',';

/// The labels of an object that is only read: one piece of text, a seventh of the memory of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Option<BTreeMap<String, String>>")]
pub struct Labels(Box<str>);

impl Labels {
    /// The value of a label. Linear in the number of labels.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// All labels, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.split_terminator(VALUE_ENDS).filter_map(|label| label.split_once(KEY_ENDS))
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut text = String::new();
        for (key, value) in labels {
            text.push_str(key.as_ref());
            text.push(KEY_ENDS);
            text.push_str(value.as_ref());
            text.push(VALUE_ENDS);
        }
        Self(text.into_boxed_str())
    }
}

impl From<Option<BTreeMap<String, String>>> for Labels {
    fn from(labels: Option<BTreeMap<String, String>>) -> Self {
        labels.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_is_found_by_its_whole_key() {
        let read = json!({ "app": "web", "app.kubernetes.io/name": "shop", "empty": "" });
        let labels: Labels = serde_json::from_value(read).unwrap();
        assert_eq!(labels.get("app"), Some("web"));
        assert_eq!(labels.get("app.kubernetes.io/name"), Some("shop"));
        assert_eq!(labels.get("empty"), Some(""));
        assert_eq!(labels.get("name"), None);
        assert_eq!(
            labels,
            [("app", "web"), ("app.kubernetes.io/name", "shop"), ("empty", "")].into_iter().collect()
        );
    }

    #[test]
    fn no_labels_are_none() {
        assert_eq!(serde_json::from_value::<Labels>(json!(null)).unwrap(), Labels::default());
        assert_eq!(Labels::default().iter().count(), 0);
    }
}
