//! Labels in a compact form.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;

use super::shared_text::shared;

/// Separators between a key and its value, and after a value. Neither can contain them.
const KEY_END: char = '=';
const VALUE_END: char = ',';

/// Labels in one string, of which a process has only one: most Pods have the labels of their siblings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Option<BTreeMap<String, String>>")]
pub struct Labels(Arc<str>);

impl Labels {
    /// Returns the value of a label. Linear in the number of labels.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// Returns all labels, in their original order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.split_terminator(VALUE_END).filter_map(|label| label.split_once(KEY_END))
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut text = String::new();
        for (key, value) in labels {
            text.push_str(key.as_ref());
            text.push(KEY_END);
            text.push_str(value.as_ref());
            text.push(VALUE_END);
        }
        Self(shared(&text))
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
    fn equal_labels_share_their_text() {
        let of = |value: &str| [("app", value)].into_iter().collect::<Labels>();
        let (one, two) = (of("web"), of("web"));
        assert!(Arc::ptr_eq(&one.0, &two.0));
        assert!(!Arc::ptr_eq(&one.0, &of("shop").0));
    }

    #[test]
    fn finds_labels_by_their_whole_key() {
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
    fn null_labels_are_empty() {
        assert_eq!(serde_json::from_value::<Labels>(json!(null)).unwrap(), Labels::default());
        assert_eq!(Labels::default().iter().count(), 0);
    }
}
