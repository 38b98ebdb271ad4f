//! Versions of PostgreSQL, the catalog of images, and which image a version runs.

mod catalog;
mod resolve;
mod spec;

use std::{fmt, str::FromStr};

pub use self::{
    catalog::{Catalog, CatalogError, OFFICIAL_IMAGES},
    resolve::{NotInCatalog, Resolved, Substitution, resolve},
    spec::VersionSpec,
};

/// First major version with two parts ("Versioning Policy" of the PostgreSQL project).
const FIRST_OF_TWO_PARTS: u16 = 10;
/// Oldest major version that can run. Older ones lack commands that an instance needs.
const OLDEST_MAJOR: u16 = 14;

/// Version that a user asked for.
///
/// From 10 on, a version is `major.minor`. Before, it was two parts and a minor, such as `9.6.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u16,
    second: Option<u16>,
    third: Option<u16>,
}

impl Version {
    /// Returns the first part.
    pub fn major(self) -> u16 {
        self.major
    }

    /// Returns the minor version of a version from 10 on. `None` means the newest one.
    pub fn minor(self) -> Option<u16> {
        self.second.filter(|_| self.major >= FIRST_OF_TWO_PARTS)
    }

    /// Returns the newest minor version of the same major version.
    #[must_use]
    pub fn newest_minor(self) -> Self {
        Self { major: self.major, second: None, third: None }
    }

    /// Returns whether the version is older than those that can run.
    pub fn is_end_of_life(self) -> bool {
        self.major < OLDEST_MAJOR
    }
}

/// Error of a text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseVersionError {
    /// The version is a development snapshot, a beta, or a release candidate.
    #[error("the version \"{0}\" is not a release: write a released version such as 17 or \"17.6\"")]
    Unreleased(String),
    /// The version has three parts, and its major version has two.
    #[error(
        "the version \"{0}\" has too many parts: from PostgreSQL 10 on, write the major version, such as \
         17, or the minor version, such as \"17.6\""
    )]
    TooManyParts(String),
    /// The text is something else.
    #[error("\"{0}\" is not a version of PostgreSQL: write a version such as 17, \"17.6\" or \"9.6.3\"")]
    Malformed(String),
}

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, ParseVersionError> {
        let malformed = || ParseVersionError::Malformed(text.to_owned());
        if is_unreleased(text) {
            return Err(ParseVersionError::Unreleased(text.to_owned()));
        }
        let parts: Option<Vec<u16>> = text.splitn(4, '.').map(part).collect();
        let version = parts.as_deref().and_then(Self::from_parts).ok_or_else(malformed)?;
        if version.third.is_some() && version.major >= FIRST_OF_TWO_PARTS {
            return Err(ParseVersionError::TooManyParts(text.to_owned()));
        }
        Ok(version)
    }
}

impl Version {
    fn from_parts(parts: &[u16]) -> Option<Self> {
        match *parts {
            [major, ref minor @ ..] if major > 0 && minor.len() < 3 => {
                let (second, third) = (minor.first().copied(), minor.get(1).copied());
                Some(Self { major, second, third })
            }
            _ => None,
        }
    }
}

/// Returns whether a text is a number with `devel`, `alpha`, `beta`, or `rc`, as `PG_VERSION` has it.
fn is_unreleased(text: &str) -> bool {
    let name = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let is_stage = ["devel", "alpha", "beta", "rc"].iter().any(|stage| name.starts_with(stage));
    is_stage && name.len() < text.len()
}

/// Parses a part without leading zeros, so that one version has one text.
fn part(digits: &str) -> Option<u16> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_number && (digits == "0" || !digits.starts_with('0'));
    is_plain.then(|| digits.parse().ok())?
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.major)?;
        self.second.into_iter().chain(self.third).try_for_each(|part| write!(f, ".{part}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_one_to_three_parts() {
        for (text, major, minor) in [
            ("17", 17, None),
            ("17.6", 17, Some(6)),
            ("10.0", 10, Some(0)),
            ("9.6.3", 9, None),
            ("9", 9, None),
        ] {
            let version: Version = text.parse().unwrap();
            assert_eq!((version.major(), version.minor()), (major, minor), "{text}");
            assert_eq!(version.to_string(), text);
        }
    }

    #[test]
    fn versions_before_14_are_end_of_life() {
        for (text, expected) in [("9.6.3", true), ("13.23", true), ("14", false), ("18.6", false)] {
            assert_eq!(text.parse::<Version>().unwrap().is_end_of_life(), expected, "{text}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, expected) in [
            (
                "18beta1",
                "the version \"18beta1\" is not a release: write a released version such as 17 or \"17.6\"",
            ),
            (
                "19devel",
                "the version \"19devel\" is not a release: write a released version such as 17 or \"17.6\"",
            ),
            (
                "17.6.1",
                "the version \"17.6.1\" has too many parts: from PostgreSQL 10 on, write the major version, such \
                 as 17, or the minor version, such as \"17.6\"",
            ),
            (
                "v17",
                "\"v17\" is not a version of PostgreSQL: write a version such as 17, \"17.6\" or \"9.6.3\"",
            ),
        ] {
            assert_eq!(text.parse::<Version>().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn rejects_other_texts() {
        for text in [
            "", ".", "17.", ".6", "0", "017", "17.06", "1.2.3.4", "17 ", "+17", "-17", "70000", "latest",
            "beta",
        ] {
            assert_eq!(text.parse::<Version>(), Err(ParseVersionError::Malformed(text.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn accepted_text_renders_back(text in "\\PC*|[0-9.]{0,8}|[0-9]{1,2}(\\.[0-9]{1,2}){0,3}(beta|rc)?[0-9]?") {
            if let Ok(version) = text.parse::<Version>() {
                prop_assert_eq!(version.to_string(), text);
            }
        }
    }
}
