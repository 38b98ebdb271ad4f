//! Which image a version runs.

use std::fmt;

use super::{Catalog, Version, catalog::CatalogEntry};

/// Image that runs a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The image.
    pub image: String,
    /// Major version that runs.
    pub major: u16,
    /// Minor version that runs.
    pub minor: u16,
    /// UID of the user of the image.
    pub uid: u32,
    /// Set if another major version runs than the one that was asked for.
    pub substituted: Option<Substitution>,
}

/// Another version that runs instead of one that cannot.
///
/// Its text is a message for the condition `VersionSupported`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// Version in the spec.
    pub requested: Version,
    /// Major version that runs.
    pub major: u16,
    /// Minor version that runs.
    pub minor: u16,
}

impl fmt::Display for Substitution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requested, major, minor } = self;
        write!(
            f,
            "PostgreSQL {requested} is no longer maintained and cannot run; PostgreSQL {major}.{minor} runs instead; \
             to confirm, set spec.version to {major}"
        )
    }
}

/// Error of a version without an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the catalog of images has no PostgreSQL {major}: set spec.version to one of {}, or set spec.image",
    majors.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
)]
pub struct NotInCatalog {
    /// Major version in the spec.
    pub major: u16,
    /// Major versions of the catalog, in ascending order.
    pub majors: Vec<u16>,
}

/// Returns the image for the version in a spec. `None` means the default major version.
///
/// - A major version means its newest minor version of the catalog.
/// - An exact minor version runs as it is. It can be newer than the catalog.
/// - A version below 14 runs the default major version instead. This is for new clusters, which have
///   no data at risk. The caller keeps the major version of data that exists.
///
/// # Errors
/// Returns an error if the catalog has no such major version.
pub fn resolve(requested: Option<Version>, catalog: &Catalog) -> Result<Resolved, NotInCatalog> {
    let default = catalog.default_entry();
    match requested {
        None => Ok(resolved(default, default.newest_minor)),
        Some(requested) if requested.is_end_of_life() => {
            let resolved = resolved(default, default.newest_minor);
            let substitution = Substitution { requested, major: resolved.major, minor: resolved.minor };
            Ok(Resolved { substituted: Some(substitution), ..resolved })
        }
        Some(requested) => {
            let major = requested.major();
            let entry = catalog.entry(major);
            let entry = entry.ok_or_else(|| NotInCatalog { major, majors: catalog.majors() })?;
            Ok(resolved(entry, requested.minor().unwrap_or(entry.newest_minor)))
        }
    }
}

fn resolved(entry: &CatalogEntry, minor: u16) -> Resolved {
    let CatalogEntry { major, uid, .. } = *entry;
    Resolved { image: entry.image(minor), major, minor, uid, substituted: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn catalog() -> Catalog {
        "17.6=26:pg:{version}; 18.2=999:postgres:{version}".parse().unwrap()
    }

    fn resolve_text(version: &str) -> Result<Resolved, NotInCatalog> {
        resolve(Some(version.parse().unwrap()), &catalog())
    }

    #[test]
    fn major_version_means_the_newest_minor_version() {
        let resolved = resolve_text("18").unwrap();
        assert_eq!((resolved.image.as_str(), resolved.major, resolved.minor), ("postgres:18.2", 18, 2));
        assert_eq!((resolved.uid, resolved.substituted), (999, None));
    }

    #[test]
    fn minor_version_is_exact() {
        for (version, image) in [("17.1", "pg:17.1"), ("17.7", "pg:17.7")] {
            assert_eq!(resolve_text(version).unwrap().image, image);
        }
    }

    #[test]
    fn no_version_means_the_default_major_version() {
        let resolved = resolve(None, &catalog()).unwrap();
        assert_eq!((resolved.image.as_str(), resolved.substituted), ("pg:17.6", None));
    }

    #[test]
    fn old_version_is_substituted_and_the_message_says_so() {
        for version in ["9.6.3", "13.23", "13"] {
            let resolved = resolve_text(version).unwrap();
            assert_eq!((resolved.image.as_str(), resolved.uid), ("pg:17.6", 26));
            assert_eq!(
                resolved.substituted.unwrap().to_string(),
                format!(
                    "PostgreSQL {version} is no longer maintained and cannot run; PostgreSQL 17.6 runs instead; to \
                     confirm, set spec.version to 17"
                )
            );
        }
    }

    #[test]
    fn unknown_major_version_is_an_error_that_lists_the_others() {
        assert_eq!(
            resolve_text("19.1").unwrap_err().to_string(),
            "the catalog of images has no PostgreSQL 19: set spec.version to one of 17, 18, or set spec.image"
        );
    }

    proptest! {
        #[test]
        fn supported_versions_are_never_substituted(major in 10..30_u16, minor in prop::option::of(0..99_u16)) {
            let text = minor.map_or_else(|| major.to_string(), |minor| format!("{major}.{minor}"));
            let resolved = resolve_text(&text);
            prop_assert_eq!(resolved.is_err(), major >= 14 && !catalog().majors().contains(&major));
            if let Ok(resolved) = resolved {
                prop_assert_eq!(resolved.substituted.is_some(), major < 14);
                prop_assert!(major < 14 || resolved.major == major);
            }
        }
    }
}
