//! The version of PostgreSQL that a cluster runs.

use postgres_model::version::{Catalog, CatalogError, Resolved, Substitution, Version, VersionSpec, resolve};

use crate::{
    api::{MajorUpgradeStatus, MajorVersionUpdate, PostgresCluster, major},
    decide::RequestedUpgrade,
    reasons,
};

/// What a cluster runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// Version such as `18.6`.
    pub(crate) version: String,
    pub(crate) image: String,
    /// User of PostgreSQL in the image.
    pub(crate) user: i64,
    /// Why the version is not that of the spec.
    pub(crate) deviation: Option<Unsupported>,
    /// The upgrade to another major version that the spec asks for.
    pub(crate) upgrade: Option<RequestedUpgrade>,
    /// Image with the programs of the former version, while the data are upgraded.
    pub(crate) previous: Option<String>,
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

    /// Returns what a cluster runs. The major version of data that exist changes only by an upgrade.
    pub(crate) fn serve(&self, cluster: &PostgresCluster) -> Result<Served, Unsupported> {
        let catalog = self
            .0
            .as_ref()
            .map_err(|error| not_in_catalog(format!("POSTGRES_IMAGES of the manager: {error}")))?;
        if let Some(upgrade) = in_progress(cluster) {
            return serve_upgrade(catalog, cluster, upgrade);
        }
        let requested = cluster.spec.version.as_ref().map(VersionSpec::parse).transpose();
        let requested = requested.map_err(|error| not_in_catalog(error.to_string()))?;
        let data = version_of_data(cluster);
        let upgrade = requested.zip(data).map(|(requested, data)| upgrade(cluster, catalog, requested, data));
        let (upgrade, obstacle) = match upgrade.transpose() {
            Ok(upgrade) => (upgrade.flatten(), None),
            Err(obstacle) => (None, Some(obstacle)),
        };
        let (version, refused) = match (requested, data) {
            (Some(requested), Some(data)) if requested.is_end_of_life() => (Some(data.newest_minor()), None),
            (Some(requested), Some(data)) if requested.major() != data.major() => {
                let refused = upgrade.is_none().then(|| other_major(requested, data));
                (Some(data), failed_upgrade(cluster, requested).or(obstacle).or(refused))
            }
            (requested, data) => (requested.or_else(|| data.map(Version::newest_minor)), None),
        };
        // The image of the spec is that of the version in the spec.
        if let (Some(refused), Some(_)) = (&refused, &cluster.spec.image) {
            return Err(refused.clone());
        }
        let resolved = resolve(version, catalog).map_err(|error| not_in_catalog(error.to_string()))?;
        let substitution =
            |requested| Substitution { requested, major: resolved.major, minor: resolved.minor };
        let substitution = requested.filter(|it| it.is_end_of_life()).map(substitution);
        let end_of_life =
            |it: Substitution| Unsupported { reason: reasons::END_OF_LIFE, message: it.to_string() };
        Ok(Served {
            version: format!("{}.{}", resolved.major, resolved.minor),
            image: cluster.spec.image.clone().unwrap_or(resolved.image),
            user: resolved.uid.into(),
            deviation: refused.or_else(|| substitution.map(end_of_life)),
            upgrade,
            previous: None,
        })
    }

    /// Returns the major version of clusters whose spec has none. Empty without a catalog.
    pub(crate) fn default_major(&self) -> String {
        let default = self.0.as_ref().ok().and_then(|catalog| resolve(None, catalog).ok());
        default.map(|default| default.major.to_string()).unwrap_or_default()
    }
}

fn not_in_catalog(message: String) -> Unsupported {
    Unsupported { reason: reasons::NOT_IN_CATALOG, message }
}

/// Returns the upgrade of the data that has neither succeeded nor failed.
fn in_progress(cluster: &PostgresCluster) -> Option<&MajorUpgradeStatus> {
    cluster.status.as_ref()?.major_upgrade.as_ref().filter(|upgrade| upgrade.is_in_progress())
}

/// Returns what the member runs that upgrades its data.
fn serve_upgrade(
    catalog: &Catalog,
    cluster: &PostgresCluster,
    upgrade: &MajorUpgradeStatus,
) -> Result<Served, Unsupported> {
    let resolved = |version: &str| {
        let version = version.parse::<Version>().map_err(|error| not_in_catalog(error.to_string()))?;
        resolve(Some(version), catalog).map_err(|error| not_in_catalog(error.to_string()))
    };
    let (from, to) = (resolved(&upgrade.from)?, resolved(&upgrade.to)?);
    let requested =
        cluster.spec.version.as_ref().and_then(|version| version.parse().ok()).map(Version::major);
    let is_still_requested = requested == upgrade.to_major() && allows_upgrade(cluster);
    Ok(Served {
        version: upgrade.to.clone(),
        image: to.image,
        user: to.uid.into(),
        deviation: None,
        upgrade: Some(RequestedUpgrade { from: upgrade.from.clone(), to: upgrade.to.clone() })
            .filter(|_| is_still_requested),
        previous: Some(from.image),
    })
}

/// Returns whether the spec allows an upgrade. An image of the spec has one version only.
fn allows_upgrade(cluster: &PostgresCluster) -> bool {
    cluster.spec.updates.major_version == MajorVersionUpdate::Upgrade && cluster.spec.image.is_none()
}

/// Returns the upgrade that the spec asks for, if it allows one.
///
/// # Errors
/// Returns an error if the images do not allow it.
fn upgrade(
    cluster: &PostgresCluster,
    catalog: &Catalog,
    requested: Version,
    data: Version,
) -> Result<Option<RequestedUpgrade>, Unsupported> {
    if !allows_upgrade(cluster) || requested.major() <= data.major() {
        return Ok(None);
    }
    let resolved =
        |version| resolve(Some(version), catalog).map_err(|error| not_in_catalog(error.to_string()));
    let (from, to) = (resolved(data)?, resolved(requested)?);
    if from.uid != to.uid {
        let message = format!(
            "the images of PostgreSQL {} and {} have different users in POSTGRES_IMAGES of the manager, so the data \
             cannot be upgraded",
            from.major, to.major
        );
        return Err(not_in_catalog(message));
    }
    let version = |it: &Resolved| format!("{}.{}", it.major, it.minor);
    Ok(Some(RequestedUpgrade { from: data.to_string(), to: version(&to) }))
}

/// Returns why the upgrade to a version has failed, if it has.
fn failed_upgrade(cluster: &PostgresCluster, requested: Version) -> Option<Unsupported> {
    let upgrade = cluster.status.as_ref()?.major_upgrade.as_ref()?;
    let is_this = upgrade.has_failed() && upgrade.to_major() == Some(requested.major());
    let MajorUpgradeStatus { from, to, failure, .. } = upgrade;
    let message = format!(
        "the data could not be upgraded from PostgreSQL {from} to {to}, and {from} runs again: {failure}; solve that, \
         set spec.version to {}, and then to {} again",
        major(from).unwrap_or_default(),
        requested.major()
    );
    is_this.then_some(Unsupported { reason: reasons::MAJOR_UPGRADE_FAILED, message })
}

/// Returns the version of the data. `None` while there are none, or it is not known.
fn version_of_data(cluster: &PostgresCluster) -> Option<Version> {
    let status = cluster.status.as_ref()?;
    match &status.adoption {
        // No member of this cluster has run yet.
        Some(adoption) if !adoption.done => adoption.major_version?.to_string().parse().ok(),
        _ => status.system_id.and_then(|_| status.current_version.parse().ok()),
    }
}

/// Returns the major version that the volumes record when they have data. It is known before the status has the
/// system identifier of the data, so that both are recorded at once.
pub(crate) fn major_version(cluster: &PostgresCluster) -> Option<u16> {
    let status = cluster.status.as_ref()?;
    match &status.adoption {
        Some(adoption) if !adoption.done => adoption.major_version,
        _ => status.current_version.parse().ok().map(Version::major),
    }
}

fn other_major(requested: Version, data: Version) -> Unsupported {
    let message = format!(
        "the data are of PostgreSQL {data}, and PostgreSQL {} cannot read them; set spec.version to {}{}",
        requested.major(),
        data.major(),
        if requested.major() > data.major() {
            ", or spec.updates.majorVersion to Upgrade, and remove spec.image"
        } else {
            ""
        }
    );
    Unsupported { reason: reasons::MAJOR_VERSION_CHANGE, message }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::{AdoptionStatus, fixture::cluster};

    const IMAGES: &str = "18.6=999:postgres:{version}; 17.12=26:pg:{version}";

    fn serve(images: &str, spec: Value) -> Result<Served, Unsupported> {
        Versions::from_setting(images).serve(&cluster(&spec))
    }

    /// Returns what a cluster with data of 17.6 runs.
    fn serve_data(spec: Value) -> Result<Served, Unsupported> {
        let mut cluster = cluster(&spec);
        let status = cluster.status.get_or_insert_default();
        status.current_version = "17.6".to_owned();
        status.system_id = "7400000000000000001".parse().ok();
        Versions::from_setting(IMAGES).serve(&cluster)
    }

    #[test]
    fn major_version_of_data_stays() {
        for (spec, version, reason) in [
            (json!({}), "17.12", None),
            (json!({"version": 17}), "17.12", None),
            (json!({"version": "17.5"}), "17.5", None),
            (json!({"version": "9.6.3"}), "17.12", Some("EndOfLife")),
            (json!({"version": 18}), "17.6", Some("MajorVersionChange")),
        ] {
            let served = serve_data(spec.clone()).unwrap();
            let found = served.deviation.map(|deviation| deviation.reason);
            assert_eq!((served.version.as_str(), found), (version, reason), "{spec}");
        }
        let error = serve_data(json!({"version": 18, "image": "mine:18"})).unwrap_err();
        assert_eq!(
            error.message,
            "the data are of PostgreSQL 17.6, and PostgreSQL 18 cannot read them; set spec.version to 17, or spec.updates.majorVersion to Upgrade, and remove spec.image"
        );
    }

    #[test]
    fn upgrade_is_offered_if_the_spec_and_the_images_allow_it() {
        let spec = |version: u16| json!({"version": version, "updates": {"majorVersion": "Upgrade"}});
        let same_user = "18.6=26:postgres:{version}; 17.12=26:pg:{version}";
        let mut cluster = cluster(&spec(18));
        let status = cluster.status.get_or_insert_default();
        status.current_version = "17.6".to_owned();
        status.system_id = "7400000000000000001".parse().ok();
        let served = Versions::from_setting(IMAGES).serve(&cluster).unwrap();
        assert!(served.deviation.unwrap().message.contains("have different users"));
        let versions = Versions::from_setting(same_user);
        let served = versions.serve(&cluster).unwrap();
        let requested = RequestedUpgrade { from: "17.6".to_owned(), to: "18.6".to_owned() };
        assert_eq!((served.version.as_str(), served.image.as_str()), ("17.6", "pg:17.6"));
        assert_eq!((served.deviation, served.upgrade), (None, Some(requested.clone())));

        let mut upgrade = MajorUpgradeStatus {
            from: requested.from,
            to: requested.to,
            member: "db-1".to_owned(),
            ..MajorUpgradeStatus::default()
        };
        cluster.status.as_mut().unwrap().major_upgrade = Some(upgrade.clone());
        let served = versions.serve(&cluster).unwrap();
        assert_eq!((served.version.as_str(), served.image.as_str()), ("18.6", "postgres:18.6"));
        assert_eq!((served.previous.as_deref(), served.upgrade.is_some()), (Some("pg:17.6"), true));
        let mut cancelled = cluster.clone();
        cancelled.spec.version = Some(VersionSpec::Int(17));
        let served = versions.serve(&cancelled).unwrap();
        assert_eq!((served.version.as_str(), served.upgrade), ("18.6", None), "it can have started");

        upgrade.failure = "no space".to_owned();
        cluster.status.as_mut().unwrap().major_upgrade = Some(upgrade);
        let served = versions.serve(&cluster).unwrap();
        assert_eq!((served.image.as_str(), served.previous), ("pg:17.6", None));
        let deviation = served.deviation.unwrap();
        assert_eq!(deviation.reason, "MajorUpgradeFailed");
        assert!(deviation.message.contains("17.6 runs again: no space; solve that, set spec.version to 17"));

        cluster.spec.version = None;
        let served = versions.serve(&cluster).unwrap();
        assert_eq!((served.version.as_str(), served.upgrade, served.deviation), ("17.12", None, None));
    }

    #[test]
    fn major_version_is_recorded_together_with_the_first_data() {
        let mut cluster = cluster(&json!({}));
        assert_eq!(major_version(&cluster), None);
        cluster.status.get_or_insert_default().current_version = "17.6".to_owned();
        assert_eq!((major_version(&cluster), version_of_data(&cluster)), (Some(17), None));
        let adoption = AdoptionStatus { major_version: Some(16), ..AdoptionStatus::default() };
        cluster.status.get_or_insert_default().adoption = Some(adoption);
        assert_eq!(major_version(&cluster), Some(16));
    }

    #[test]
    fn adopted_data_keep_their_major_version() {
        let mut cluster = cluster(&json!({"version": 18}));
        let status = cluster.status.get_or_insert_default();
        // The version of the spec was reported before the volumes were adopted.
        status.current_version = "18.6".to_owned();
        let adoption = |major_version| AdoptionStatus { major_version, ..AdoptionStatus::default() };
        for (known, expected) in [(Some(17), "17.12"), (None, "18.6")] {
            cluster.status.get_or_insert_default().adoption = Some(adoption(known));
            assert_eq!(Versions::from_setting(IMAGES).serve(&cluster).unwrap().version, expected);
        }
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
        assert!(served.deviation.unwrap().message.starts_with("PostgreSQL 9.6.3 is no longer maintained"));
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
