//! The members that a person has fenced.

use kube::ResourceExt;
use postgres_model::fence::{FENCE, Fence};

use crate::api::PostgresCluster;

/// Returns the members that the annotation of a cluster lists.
pub fn fence(cluster: &PostgresCluster) -> Fence {
    Fence::parse(cluster.annotations().get(FENCE).map(String::as_str))
}
