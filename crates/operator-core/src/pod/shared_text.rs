//! Texts of which a process has only one each, because many Pods have the same.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;

/// The texts in use, and some that no longer are.
static TEXTS: LazyLock<Mutex<Texts>> = LazyLock::new(Mutex::default);

/// Number of texts that are kept without a look at whether they are in use.
const UNSWEPT: usize = 1024;

/// Longest text in bytes that is shared. A longer one is rare, and would take much memory while nobody uses it.
const MAX_SHARED: usize = 1024;

/// Returns the text as all others have it.
pub(super) fn shared(text: &str) -> Arc<str> {
    TEXTS.lock().shared(text)
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
    use super::*;

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
}
