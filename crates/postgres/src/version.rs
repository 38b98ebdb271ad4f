//! The version of PostgreSQL that a cluster runs.

use postgres_model::version::{Catalog, CatalogError, VersionSpec, resolve};

use crate::{api::PostgresClusterSpec, reasons};

/// What a cluster runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// Version such as `18.6`.
    pub(crate) version: String,
    pub(crate) image: String,
    /// User of PostgreSQL in the image.
    pub(crate) user: i64,
    /// Why the version is not that of the spec.
    pub(crate) substitution: Option<String>,
}

/// Why the version of the spec cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsupported {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The versions that the manager serves: its catalog of images, or why it has none.
pub(crate) struct Versions(Result<Catalog, CatalogError>);

impl Versions {
    /// Reads the manager's setting.
    pub(crate) fn from_setting(catalog: &str) -> Self {
        Self(catalog.parse())
    }

    /// Returns what a cluster with this spec runs.
    pub(crate) fn serve(&self, spec: &PostgresClusterSpec) -> Result<Served, Unsupported> {
        let unsupported = |message| Unsupported { reason: reasons::NOT_IN_CATALOG, message };
        let catalog = self
            .0
            .as_ref()
            .map_err(|error| unsupported(format!("POSTGRES_IMAGES of the manager: {error}")))?;
        let requested = spec.version.as_ref().map(VersionSpec::parse).transpose();
        let requested = requested.map_err(|error| unsupported(error.to_string()))?;
        let resolved = resolve(requested, catalog).map_err(|error| unsupported(error.to_string()))?;
        Ok(Served {
            version: format!("{}.{}", resolved.major, resolved.minor),
            image: spec.image.clone().unwrap_or(resolved.image),
            user: resolved.uid.into(),
            substitution: resolved.substituted.map(|substitution| substitution.to_string()),
        })
    }

    /// Returns the major version of clusters whose spec has none. Empty without a catalog.
    pub(crate) fn default_major(&self) -> String {
        let default = self.0.as_ref().ok().and_then(|catalog| resolve(None, catalog).ok());
        default.map(|default| default.major.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::fixture::cluster;

    const IMAGES: &str = "18.6=999:postgres:{version}; 17.12=26:pg:{version}";

    fn serve(images: &str, spec: Value) -> Result<Served, Unsupported> {
        Versions::from_setting(images).serve(&cluster(&spec).spec)
    }

    #[test]
    fn image_of_the_spec_replaces_that_of_the_catalog() {
        let served = serve(IMAGES, json!({"version": "17.6"})).unwrap();
        assert_eq!((served.image.as_str(), served.user, served.version.as_str()), ("pg:17.6", 26, "17.6"));
        let served = serve(IMAGES, json!({"version": 17, "image": "mine:1"})).unwrap();
        assert_eq!((served.image.as_str(), served.user, served.version.as_str()), ("mine:1", 26, "17.12"));
    }

    #[test]
    fn version_of_the_workshop_runs_the_default() {
        let served = serve(IMAGES, json!({"version": "9.6.3"})).unwrap();
        assert_eq!(served.version, "18.6");
        assert!(served.substitution.unwrap().starts_with("PostgreSQL 9.6.3 is no longer maintained"));
        assert_eq!(Versions::from_setting(IMAGES).default_major(), "18");
    }

    #[test]
    fn version_without_image_and_invalid_catalog_are_explained() {
        let error = serve(IMAGES, json!({"version": 19})).unwrap_err();
        assert_eq!(error.reason, "NotInCatalog");
        assert!(error.message.contains("set spec.version to one of 17, 18"), "{error:?}");
        let error = serve("postgres:18", json!({})).unwrap_err();
        assert!(
            error.message.starts_with("POSTGRES_IMAGES of the manager: \"postgres:18\" is not"),
            "{error:?}"
        );
    }
}
