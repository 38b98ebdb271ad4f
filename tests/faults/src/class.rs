//! Fault classes.

use std::{fmt, str::FromStr};

use anyhow::{Context as _, Result};

/// A fault class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

/// Number and description of a class.
type NumberedDescription = (u8, &'static str);

/// All classes, in order.
const ALL: &[NumberedDescription] = &[
    (1, "crash after a write, before its response"),
    (2, "crash before a write"),
    (3, "write whose response is lost"),
    (4, "409 conflict"),
    (5, "500 once"),
    (6, "429 with Retry-After, 503, 504 once, in turn"),
    (7, "403 and 422 for a while"),
    (8, "changes that are hidden from the manager"),
    (9, "restart with a cache from before a deletion"),
    (10, "410 in the stream, at connect, for the rest of a list"),
    (11, "silent watch that stays open"),
    (12, "slow requests"),
    (13, "duplicate, late, and repeated notifications"),
    (14, "API server killed before, during and after a change"),
    (15, "etcd killed during a change"),
    (16, "leader killed, paused past its Lease, partitioned"),
    (17, "clock five minutes ahead, or behind, of the other replica's"),
    (19, "modifications by a third party"),
    (
        20,
        "requests of a PostgreSQL member for its Lease: response lost, 409, 500, 429 or 503 or 504, 403, slow",
    ),
];

impl Class {
    /// Returns all classes, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|(number, _)| Self(*number))
    }

    /// Returns the number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the description.
    pub fn description(self) -> &'static str {
        ALL.iter().find(|(number, _)| *number == self.0).map_or("", |(_, description)| description)
    }

    /// Returns whether a fault of this class affects the whole manager, so that runs cannot share
    /// it.
    pub fn is_exclusive(self) -> bool {
        matches!(self.0, 1 | 2 | 8..=11)
    }

    /// Returns whether the class needs clock skew.
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
        found.with_context(|| format!("{text:?} is not a fault class; the classes are {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_round_trips_and_unknown_class_is_rejected() {
        for class in Class::all() {
            assert_eq!(class.to_string().parse::<Class>().unwrap(), class);
            assert!(!class.description().is_empty());
        }
        assert!("F99".parse::<Class>().unwrap_err().to_string().contains("the classes are F1"));
    }
}
