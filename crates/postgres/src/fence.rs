//! The members whose PostgreSQL has to be down.

use kube::ResourceExt;
use postgres_model::fence::{FENCE, Fence};

use crate::api::{MajorUpgradeStatus, PostgresCluster};

/// Returns the members that the annotation of a cluster lists.
pub fn fence(cluster: &PostgresCluster) -> Fence {
    Fence::parse(cluster.annotations().get(FENCE).map(String::as_str))
}

/// Returns the members whose PostgreSQL has to be down: all of a cluster that is hibernated or upgraded to another
/// major version, or those that are fenced.
pub(crate) fn stopped(cluster: &PostgresCluster) -> Fence {
    let upgrade = cluster.status.as_ref().and_then(|status| status.major_upgrade.as_ref());
    let is_upgraded = upgrade.is_some_and(MajorUpgradeStatus::is_in_progress);
    if cluster.spec.hibernated || is_upgraded { Fence::all() } else { fence(cluster) }
}
