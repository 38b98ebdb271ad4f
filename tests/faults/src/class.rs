//! The classes of faults.

use std::{fmt, str::FromStr};

use anyhow::{Context as _, Result};

/// A class of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

/// A class and what it is, in words.
type Words = (u8, &'static str);

/// All classes that can be run, in order.
const ALL: &[Words] = &[
    (1, "crash after a write, before its answer"),
    (2, "crash before a write"),
    (3, "a write whose answer is lost"),
    (4, "409: somebody else was quicker"),
    (5, "500 once"),
    (6, "429 with Retry-After, 503, 504 once, in turn"),
    (7, "403 and 422 for a while"),
    (8, "changes that the manager never sees one by one"),
    (9, "restart with a view from before a deletion"),
    (10, "410 in the stream, at connect, for the rest of a list"),
    (11, "a watch that falls silent and stays open"),
    (12, "slow requests"),
    (13, "notifications twice, late, and old ones again"),
    (14, "API server killed before, during and after a change"),
    (15, "etcd killed during a change"),
    (16, "leader killed, frozen past its lease, cut off"),
    (17, "clock five minutes ahead, or behind, of the other replica's"),
    (19, "a third hand"),
];

impl Class {
    /// All classes that can be run, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|(number, _)| Self(*number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// What it is, in words.
    pub fn words(self) -> &'static str {
        ALL.iter().find(|(number, _)| *number == self.0).map_or("", |(_, words)| words)
    }

    /// Whether its faults meet all that the manager does, so that each needs the manager for itself.
    pub fn is_exclusive(self) -> bool {
        matches!(self.0, 1 | 2 | 8..=11)
    }

    /// Whether its faults take clocks that are wrong.
    pub fn is_about_clocks(self) -> bool {
        self.0 == 17
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "F{}", self.0)
    }
}

impl FromStr for Class {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::all().find(|class| class.to_string() == text);
        let known = || Self::all().map(|class| class.to_string()).collect::<Vec<_>>().join(", ");
        found.with_context(|| format!("there is no class {text:?} of faults; known are {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_as_it_is_written_and_an_unknown_one_is_answered_with_those_that_are() {
        for class in Class::all() {
            assert_eq!(class.to_string().parse::<Class>().unwrap(), class);
            assert!(!class.words().is_empty());
        }
        assert!("F99".parse::<Class>().unwrap_err().to_string().contains("known are F1"));
    }
}
