//! The members whose PostgreSQL has to be down.

use kube::ResourceExt;
use postgres_model::fence::{FENCE, Fence};

use crate::api::PostgresCluster;

/// Returns the members that the annotation of a cluster lists.
pub fn fence(cluster: &PostgresCluster) -> Fence {
    Fence::parse(cluster.annotations().get(FENCE).map(String::as_str))
}

/// Returns the members whose PostgreSQL has to be down: all of a hibernated cluster, or those that are fenced.
pub(crate) fn stopped(cluster: &PostgresCluster) -> Fence {
    if cluster.spec.hibernated { Fence::all() } else { fence(cluster) }
}
