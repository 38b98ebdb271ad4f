//! The catalog of images: which image runs a major version.

use std::{collections::HashSet, fmt, str::FromStr};

use super::{OLDEST_MAJOR, Version};

/// Default of the setting `POSTGRES_IMAGES`: the official images, with the minor versions known in
/// November 2026.
///
/// The official images create the user `postgres` with the UID 999.
pub const OFFICIAL_IMAGES: &str = "18.6=999:postgres:{version}; 17.12=999:postgres:{version}; \
    16.15=999:postgres:{version}; 15.20=999:postgres:{version}; 14.24=999:postgres:{version}";
/// Part of an image pattern that stands for the version.
const PLACEHOLDER: &str = "{version}";

/// Images by major version: the manager's setting `POSTGRES_IMAGES`.
///
/// The text has one entry for each major version, separated by semicolons or line breaks:
/// `<major>.<newest minor>=<uid>:<image>`, such as `18.6=999:postgres:{version}`. The first entry is
/// that of the default major version. The UID belongs to the image, because `initdb` needs a user
/// with that UID in its `/etc/passwd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// First entry: that of the default major version.
    default: CatalogEntry,
    others: Vec<CatalogEntry>,
}

/// Entry of a [`Catalog`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CatalogEntry {
    pub(super) major: u16,
    pub(super) newest_minor: u16,
    pub(super) uid: u32,
    pattern: String,
}

/// Error of a text that is no catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The text has no entry.
    #[error("the catalog of images is empty: write entries such as 18.6=999:postgres:{{version}}")]
    Empty,
    /// An entry has another form.
    #[error(
        "\"{0}\" is not an entry of the catalog of images: write <major>.<newest minor>=<uid>:<image>, such \
         as 18.6=999:postgres:{{version}}"
    )]
    Entry(String),
    /// The image of an entry is not a pattern.
    #[error(
        "the image of the entry \"{0}\" must contain {{version}} and no spaces, such as postgres:{{version}}"
    )]
    Image(String),
    /// The UID of an entry is 0.
    #[error(
        "the entry \"{0}\" has the uid 0: PostgreSQL does not run as root; write the uid of the image's user"
    )]
    Root(String),
    /// The major version of an entry cannot run.
    #[error("the entry \"{0}\" is too old: the oldest major version that can run is {OLDEST_MAJOR}")]
    TooOld(String),
    /// Two entries have the same major version.
    #[error("the catalog of images has two entries for PostgreSQL {0}: keep one")]
    Duplicate(u16),
}

impl Catalog {
    pub(super) fn default_entry(&self) -> &CatalogEntry {
        &self.default
    }

    pub(super) fn entry(&self, major: u16) -> Option<&CatalogEntry> {
        self.entries().find(|entry| entry.major == major)
    }

    /// Returns the major versions, in ascending order.
    pub fn majors(&self) -> Vec<u16> {
        let mut majors: Vec<_> = self.entries().map(|entry| entry.major).collect();
        majors.sort_unstable();
        majors
    }

    fn entries(&self) -> impl Iterator<Item = &CatalogEntry> {
        std::iter::once(&self.default).chain(&self.others)
    }
}

impl FromStr for Catalog {
    type Err = CatalogError;

    fn from_str(text: &str) -> Result<Self, CatalogError> {
        let entries = text.split([';', '\n']).map(str::trim).filter(|entry| !entry.is_empty());
        let mut entries = entries.map(str::parse::<CatalogEntry>);
        let default = entries.next().ok_or(CatalogError::Empty)??;
        let catalog = Self { default, others: entries.collect::<Result<_, _>>()? };
        let mut majors = HashSet::new();
        let duplicate = catalog.entries().map(|entry| entry.major).find(|major| !majors.insert(*major));
        duplicate.map_or(Ok(catalog), |major| Err(CatalogError::Duplicate(major)))
    }
}

impl fmt::Display for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.default.fmt(f)?;
        self.others.iter().try_for_each(|entry| write!(f, "; {entry}"))
    }
}

impl CatalogEntry {
    /// Returns the image of a minor version.
    pub(super) fn image(&self, minor: u16) -> String {
        self.pattern.replace(PLACEHOLDER, &format!("{}.{minor}", self.major))
    }

    fn check(self, text: &str) -> Result<Self, CatalogError> {
        let is_pattern = self.pattern.contains(PLACEHOLDER) && !self.pattern.contains(char::is_whitespace);
        match text.to_owned() {
            text if !is_pattern => Err(CatalogError::Image(text)),
            text if self.uid == 0 => Err(CatalogError::Root(text)),
            text if self.major < OLDEST_MAJOR => Err(CatalogError::TooOld(text)),
            _ => Ok(self),
        }
    }
}

impl FromStr for CatalogEntry {
    type Err = CatalogError;

    fn from_str(text: &str) -> Result<Self, CatalogError> {
        split(text).ok_or_else(|| CatalogError::Entry(text.to_owned()))?.check(text)
    }
}

/// Splits the text of an entry. Whether the parts make sense is left to [`CatalogEntry::check`].
fn split(text: &str) -> Option<CatalogEntry> {
    let (version, rest) = text.split_once('=')?;
    let (uid, pattern) = rest.split_once(':')?;
    let version: Version = version.trim().parse().ok()?;
    // Before PostgreSQL 10, the second part belongs to the major version.
    let (major, newest_minor) = (version.major(), version.second?);
    Some(CatalogEntry { major, newest_minor, uid: uid.trim().parse().ok()?, pattern: pattern.to_owned() })
}

impl fmt::Display for CatalogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}={}:{}", self.major, self.newest_minor, self.uid, self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn official_images_cover_14_to_18() {
        let catalog = OFFICIAL_IMAGES.parse::<Catalog>().unwrap();
        assert_eq!(catalog.majors(), [14, 15, 16, 17, 18]);
        assert_eq!((catalog.default_entry().major, catalog.default_entry().uid), (18, 999));
        assert_eq!(catalog.entry(17).unwrap().image(6), "postgres:17.6");
    }

    #[test]
    fn entries_are_separated_by_semicolons_or_lines() {
        let text = "17.6=26:ghcr.io/cloudnative-pg/postgresql:{version}\n\n 18.1 = 999:db.example:5000/pg:{version}-a ;";
        let catalog: Catalog = text.parse().unwrap();
        assert_eq!(catalog.default_entry().uid, 26);
        assert_eq!(catalog.entry(18).unwrap().image(1), "db.example:5000/pg:18.1-a");
    }

    #[test]
    fn errors_name_the_entry() {
        let error = |text: &str| text.parse::<Catalog>().unwrap_err();
        assert_eq!(error(" ;\n"), CatalogError::Empty);
        for text in
            ["18", "18=999:pg:{version}", "18.6=pg:{version}", "18.6=-1:p:{version}", "18beta1=1:{version}"]
        {
            assert_eq!(error(text), CatalogError::Entry(text.to_owned()), "{text}");
        }
        let owned = str::to_owned;
        assert_eq!(error("18.6=999:pg:18"), CatalogError::Image(owned("18.6=999:pg:18")));
        assert_eq!(error("18.6=999:p g:{version}"), CatalogError::Image(owned("18.6=999:p g:{version}")));
        assert_eq!(error("18.6=0:pg:{version}"), CatalogError::Root(owned("18.6=0:pg:{version}")));
        assert_eq!(error("13.23=9:pg:{version}"), CatalogError::TooOld(owned("13.23=9:pg:{version}")));
        assert_eq!(error("18.6=9:a:{version};18.5=9:b:{version}"), CatalogError::Duplicate(18));
    }

    #[test]
    fn messages_show_the_form() {
        let error = "18".parse::<Catalog>().unwrap_err().to_string();
        assert!(error.ends_with("such as 18.6=999:postgres:{version}"), "{error}");
    }

    proptest! {
        #[test]
        fn accepted_text_renders_back(text in "\\PC*|([ ;\n]?1[3-8]\\.[0-9]{1,2}=[0-9]{1,3}:[a-z:/]{1,4}(\\{version\\})?){0,3}") {
            if let Ok(catalog) = text.parse::<Catalog>() {
                prop_assert_eq!(catalog.to_string().parse(), Ok(catalog));
            }
        }
    }
}
