//! The lineage: which cluster wrote a part of the archive.

use std::{fmt, str::FromStr};

/// Longest name: that of a DNS subdomain.
const MAX_NAME: usize = 253;
/// Longest part of a name between dots: that of a DNS label.
const MAX_LABEL: usize = 63;
/// How many digits of the UID are part of the name.
const UID_DIGITS: usize = 8;

/// First part of the keys of a cluster: its `serverName`, or its name and eight digits of its UID.
///
/// A cluster that is created again under the same name has another UID, so it never writes to the
/// archive of its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lineage(String);

/// Error of a name under which a cluster cannot archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineageError {
    /// The name is no DNS subdomain.
    #[error(
        "\"{0}\" cannot be the serverName of an archive: use lower-case letters, digits, hyphens and dots, \
         begin and end each part with a letter or a digit, and use at most 253 letters"
    )]
    Name(String),
    /// The UID has too few digits.
    #[error(
        "\"{0}\" is not the UID of a PostgresCluster: it must begin with eight hexadecimal digits in lower case"
    )]
    Uid(String),
}

impl Lineage {
    /// Returns the lineage of a cluster.
    ///
    /// # Errors
    /// Returns an error if `server_name` or the name is no DNS subdomain, or the UID is malformed.
    pub fn new(server_name: Option<&str>, name: &str, uid: &str) -> Result<Self, LineageError> {
        match server_name {
            Some(server_name) => server_name.parse(),
            None => format!("{name}-{}", digits(uid)?).parse(),
        }
    }
}

fn digits(uid: &str) -> Result<&str, LineageError> {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = uid.get(..UID_DIGITS).filter(|digits| digits.bytes().all(is_digit));
    digits.ok_or_else(|| LineageError::Uid(uid.to_owned()))
}

/// Parses a DNS subdomain. It has no slash and no empty part, so it is one part of a path.
impl FromStr for Lineage {
    type Err = LineageError;

    fn from_str(name: &str) -> Result<Self, LineageError> {
        let is_subdomain = name.len() <= MAX_NAME && name.split('.').all(is_label);
        is_subdomain.then(|| Self(name.to_owned())).ok_or_else(|| LineageError::Name(name.to_owned()))
    }
}

/// Returns whether a text is a DNS label in lower case.
fn is_label(label: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let has_edges = !label.starts_with('-') && !label.ends_with('-');
    (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(is_letter) && has_edges
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "2c1f1c4e-0b51-4f0e-9d3c-6f1f4c1f2a3b";

    #[test]
    fn cluster_without_a_server_name_has_digits_of_its_uid() {
        assert_eq!(Lineage::new(None, "db", UID).unwrap().to_string(), "db-2c1f1c4e");
        assert_eq!(Lineage::new(Some("prod.eu"), "db", UID).unwrap().to_string(), "prod.eu");
    }

    #[test]
    fn names_that_are_no_subdomain_are_refused() {
        let long = "a".repeat(64);
        for name in
            ["", "/", "a/b", "..", "a..b", ".a", "a.", "-a", "a-", "A", "a_b", "é", "a b", "a\0", &long]
        {
            assert_eq!(Lineage::new(Some(name), "db", UID), Err(LineageError::Name(name.to_owned())));
        }
        assert!(
            ["a."; 127].concat().parse::<Lineage>().is_err()
                && (["a."; 127].concat() + "a").parse::<Lineage>().is_err()
        );
    }

    #[test]
    fn malformed_uid_is_refused() {
        for uid in ["", "2c1f1c4", "2C1F1C4E-", "../../..", "aaaaaaaé"] {
            assert_eq!(Lineage::new(None, "db", uid), Err(LineageError::Uid(uid.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn lineage_is_one_part_of_a_path(name in "\\PC*|[a-z0-9.-]{0,12}", uid in "\\PC*|[0-9a-f]{8}") {
            for lineage in [Lineage::new(Some(&name), "db", UID), Lineage::new(None, &name, &uid)].into_iter().flatten() {
                let text = lineage.to_string();
                prop_assert!(!text.is_empty() && !text.contains('/') && !text.contains(".."));
                prop_assert_eq!(text.parse(), Ok(lineage));
            }
        }
    }
}
