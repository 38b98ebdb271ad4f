//! Releases of Kubernetes that clusters can run.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Result};

/// Environment variable that selects the minor version of Kubernetes, for example `1.34`.
pub const KUBERNETES_VARIABLE: &str = "ENSEMBLE_KUBERNETES";

/// Prefix of a version that the default release emulates.
const EMULATED: &str = "emulated-";
/// Number of older minor versions that a release can emulate.
const EMULATABLE: u32 = 3;

/// A release of Kubernetes. The default is the one that the committed Go module pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    minor: u32,
    patch: u32,
    /// Version of Go in its `go.mod`, which selects the defaults of Go's compatibility settings.
    go: &'static str,
    /// Minor version whose API and features the programs have, if not their own.
    emulated: Option<u32>,
}

/// One release of each minor version, oldest first: the newest patch that the Go module proxy
/// serves.
pub const RELEASES: [Release; 5] = [
    release(33, 13, "1.24.0"),
    release(34, 4, "1.24.0"),
    release(35, 4, "1.25.0"),
    PINNED,
    release(37, 2, "1.26.0"),
];

const PINNED: Release = release(36, 3, "1.26.0");

const fn release(minor: u32, patch: u32, go: &'static str) -> Release {
    Release { minor, patch, go, emulated: None }
}

impl Release {
    /// Returns the release that `ENSEMBLE_KUBERNETES` selects, or the default.
    ///
    /// # Errors
    /// Returns an error if the version is not in [`RELEASES`].
    pub fn from_env() -> Result<Self> {
        match std::env::var(KUBERNETES_VARIABLE) {
            Ok(minor) if !minor.is_empty() => minor.parse().context(KUBERNETES_VARIABLE),
            _ => Ok(Self::default()),
        }
    }

    /// Returns the version of the programs, for example `v1.34.4`.
    pub fn version(self) -> String {
        format!("v1.{}.{}", self.minor, self.patch)
    }

    /// Returns the minor version of the programs: 34 for 1.34.
    pub fn minor(self) -> u32 {
        self.minor
    }

    /// Returns the argument that emulates another version, for the API server, the controller
    /// manager, and the scheduler.
    pub(crate) fn emulation_argument(self) -> Option<String> {
        self.emulated.map(|minor| format!("--emulated-version=1.{minor}"))
    }

    pub(crate) fn patch(self) -> u32 {
        self.patch
    }

    pub(crate) fn go(self) -> &'static str {
        self.go
    }

    /// Returns whether the committed Go module pins this release.
    pub(crate) fn is_pinned(self) -> bool {
        self.minor == PINNED.minor
    }
}

impl Default for Release {
    fn default() -> Self {
        PINNED
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.emulated {
            Some(minor) => write!(f, "{EMULATED}1.{minor}"),
            None => write!(f, "1.{}", self.minor),
        }
    }
}

impl FromStr for Release {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        known().find(|release| release.to_string() == text).with_context(|| {
            let known: Vec<_> = known().map(|release| release.to_string()).collect();
            format!("unknown version {text:?} of Kubernetes; use one of {}", known.join(", "))
        })
    }
}

/// Returns all releases, and the versions that the pinned one can emulate.
fn known() -> impl Iterator<Item = Release> {
    let older = PINNED.minor.saturating_sub(EMULATABLE)..PINNED.minor;
    let emulated = older.map(|minor| Release { emulated: Some(minor), ..PINNED });
    RELEASES.into_iter().chain(emulated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_consecutive_minor_versions() {
        let minors = RELEASES.map(Release::minor);
        assert!(minors.is_sorted_by(|a, b| a + 1 == *b), "{minors:?}");
        assert!(RELEASES.contains(&Release::default()));
    }

    #[test]
    fn minor_version_selects_release() {
        let release: Release = "1.33".parse().unwrap();
        assert_eq!((release.version().as_str(), release.to_string().as_str()), ("v1.33.13", "1.33"));
        assert_eq!((release.emulation_argument(), release.is_pinned()), (None, false));
    }

    #[test]
    fn default_release_emulates_older_versions() {
        let release: Release = "emulated-1.33".parse().unwrap();
        assert_eq!((release.version(), release.to_string()), (PINNED.version(), "emulated-1.33".to_owned()));
        assert_eq!(release.emulation_argument().as_deref(), Some("--emulated-version=1.33"));
        assert!(release.is_pinned());
    }

    #[test]
    fn unknown_version_is_refused_with_known_ones() {
        for text in ["1.32", "1.3", "v1.33", "1.33.13", "emulated-1.32", "emulated-1.36", ""] {
            let error = text.parse::<Release>().unwrap_err().to_string();
            assert!(error.contains("1.33, 1.34") && error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
