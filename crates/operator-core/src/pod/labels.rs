//! Labels in a compact form.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use serde::Deserialize;

/// Separators between a key and its value, and after a value. Neither can contain them.
const KEY_END: char = '=';
const VALUE_END: char = ',';

/// The texts of labels in use, and some that no longer are.
static TEXTS: LazyLock<Mutex<Texts>> = LazyLock::new(Mutex::default);

/// Number of texts that are kept without a look at whether they are in use.
const UNSWEPT: usize = 1024;

/// Longest text in bytes that is shared. A longer one is rare, and would take much memory while nobody uses it.
const MAX_SHARED: usize = 1024;

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
        Self(TEXTS.lock().shared(&text))
    }
}

impl From<Option<BTreeMap<String, String>>> for Labels {
    fn from(labels: Option<BTreeMap<String, String>>) -> Self {
        labels.into_iter().flatten().collect()
    }
}

/// Texts, each once.
#[derive(Default)]
struct Texts {
    known: HashSet<Arc<str>>,
    /// Number of texts of the last sweep that are in use.
    in_use: usize,
}

impl Texts {
    /// Returns the text as all others have it. Forgets the texts that nobody uses when they can be half of all.
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let new = Arc::<str>::from(text);
        if text.len() > MAX_SHARED {
            return new;
        }
        if self.known.len() >= UNSWEPT.max(2 * self.in_use) {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.known.shrink_to(2 * self.known.len());
            self.in_use = self.known.len();
        }
        self.known.insert(new.clone());
        new
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
    fn unused_texts_are_forgotten() {
        let mut texts = Texts::default();
        let used: Vec<_> = (0..UNSWEPT).map(|number| texts.shared(&format!("used {number}"))).collect();
        for number in 0..10 * UNSWEPT {
            texts.shared(&format!("unused {number}"));
        }
        assert!(texts.known.len() <= 2 * UNSWEPT, "{}", texts.known.len());
        assert!(used.iter().all(|text| Arc::ptr_eq(text, &texts.shared(text))));
    }

    #[test]
    fn long_texts_are_not_kept() {
        let mut texts = Texts::default();
        let [longest, longer] = [MAX_SHARED, MAX_SHARED + 1].map(|length| "x".repeat(length));
        assert!(Arc::ptr_eq(&texts.shared(&longest), &texts.shared(&longest)));
        assert_eq!((&*texts.shared(&longer), texts.known.len()), (longer.as_str(), 1));
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
