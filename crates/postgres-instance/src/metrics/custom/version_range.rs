//! Ranges of versions, such as `>=14.0.0 <17.0.0 || >=18.0.0`.

use std::str::FromStr;

use anyhow::{Context as _, Error, Result};

/// Major, minor, and patch. PostgreSQL has no patches.
pub(super) type Version = [u16; 3];

/// Alternatives, each a list of conditions that must all hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VersionRange(Vec<Vec<(Operator, Version)>>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Less,
    AtMost,
    Equal,
    NotEqual,
    AtLeast,
    Greater,
}

/// The operators. One that begins with another one comes first.
const OPERATORS: [(&str, Operator); 8] = [
    ("<=", Operator::AtMost),
    ("<", Operator::Less),
    (">=", Operator::AtLeast),
    (">", Operator::Greater),
    ("!=", Operator::NotEqual),
    ("!", Operator::NotEqual),
    ("==", Operator::Equal),
    ("=", Operator::Equal),
];

impl VersionRange {
    pub(super) fn contains(&self, version: Version) -> bool {
        let holds = |(operator, bound): &(Operator, Version)| match operator {
            Operator::Less => version < *bound,
            Operator::AtMost => version <= *bound,
            Operator::Equal => version == *bound,
            Operator::NotEqual => version != *bound,
            Operator::AtLeast => version >= *bound,
            Operator::Greater => version > *bound,
        };
        self.0.iter().any(|conditions| conditions.iter().all(holds))
    }
}

impl FromStr for VersionRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.split("||").map(conditions).collect::<Result<_>>().map(Self)
    }
}

fn conditions(text: &str) -> Result<Vec<(Operator, Version)>> {
    // An operator may be apart from its version.
    let mut joined = text.replace(',', " ");
    for (operator, _) in OPERATORS {
        joined = joined.replace(&format!("{operator} "), operator);
    }
    let conditions = joined.split_whitespace().map(condition).collect::<Result<Vec<_>>>()?;
    anyhow::ensure!(!conditions.is_empty(), "the range has an empty alternative");
    Ok(conditions)
}

fn condition(text: &str) -> Result<(Operator, Version)> {
    let found = OPERATORS.iter().find_map(|(sign, operator)| Some((*operator, text.strip_prefix(sign)?)));
    let (operator, version) = found.unwrap_or((Operator::Equal, text));
    Ok((operator, exact(version).with_context(|| format!("{version:?} is no version such as 17.0.0"))?))
}

/// Parses one to three numbers.
fn exact(text: &str) -> Option<Version> {
    let mut version = [0; 3];
    let mut parts = text.split('.');
    for (number, part) in version.iter_mut().zip(parts.by_ref()) {
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(version)
}

/// Returns the version of a server, such as `17.6 (Debian 17.6-1)` or `18beta1`.
pub(super) fn of_server(text: &str) -> Version {
    let numbers = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next();
    exact(numbers.unwrap_or_default().trim_end_matches('.')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_versions() {
        for (range, version, expected) in [
            (">=17.0.0", "17.6", true),
            (">= 17", "16.9", false),
            ("<17.0.0", "16.9 (Debian 16.9-1)", true),
            (">=14.0.0 <17.0.0", "17.0", false),
            (">=14.0.0, <17.0.0", "15.14", true),
            ("<15.0.0 || >=17.0.0", "16.1", false),
            ("<15.0.0 || >=17.0.0", "18beta1", true),
            ("17.6.0", "17.6", true),
            ("!=17.6.0", "17.6", false),
        ] {
            let contains = range.parse::<VersionRange>().unwrap().contains(of_server(version));
            assert_eq!(contains, expected, "{range} {version}");
        }
    }

    #[test]
    fn malformed_ranges_are_refused() {
        for range in ["", ">=", "about 17", ">=17.0.0.0", ">=17 ||", ">=99999999"] {
            assert!(range.parse::<VersionRange>().is_err(), "{range}");
        }
    }
}
