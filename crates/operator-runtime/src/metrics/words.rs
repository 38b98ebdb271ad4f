//! Words that are not known before they come, kept few.

use std::collections::HashSet;

use parking_lot::RwLock;

use super::measure::Word;

/// How many different words there may be.
const MOST: usize = 128;
/// What is said instead of any more.
const OTHER: &str = "other";

/// What a label has said so far. Bounds the number of a metric's series whatever comes.
#[derive(Default)]
pub(super) struct Words {
    said: RwLock<HashSet<String>>,
}

impl Words {
    /// The word itself, or `other` when there have been too many different ones.
    pub(super) fn word(&self, word: &str) -> Word {
        if self.said.read().contains(word) || self.is_taken_in(word) {
            Word::Owned(word.to_owned())
        } else {
            Word::Borrowed(OTHER)
        }
    }

    fn is_taken_in(&self, word: &str) -> bool {
        let mut said = self.said.write();
        said.contains(word) || (said.len() < MOST && said.insert(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_few_whatever_comes() {
        let words = Words::default();
        let said: HashSet<_> = (0..10_000).map(|number| words.word(&format!("word-{number}"))).collect();
        assert_eq!(said.len(), MOST + 1);
        assert!(said.contains(OTHER));
        assert_eq!(words.word("word-0"), "word-0", "what was there first stays");
    }
}
