//! The Lease of the primary. The controller creates it, and only members hold it.

use k8s_openapi::api::coordination::v1::Lease;
use operator_core::labels;

use super::object_labels;
use crate::api::PostgresCluster;

/// Sets the desired state. The holder and its times belong to the members.
pub(crate) fn mutate(cluster: &PostgresCluster, lease: &mut Lease) {
    labels::add(&mut lease.metadata.labels, object_labels(cluster));
}
