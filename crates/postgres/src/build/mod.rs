//! The desired children of a PostgresCluster. Pure functions.
//!
//! Each `mutate` function sets the fields that the controller manages, in a new or an existing
//! object. Fields of others stay.

pub(crate) mod access;
pub(crate) mod application;
mod archive;
pub(crate) mod budget;
mod container;
pub(crate) mod lease;
pub(crate) mod network;
pub(crate) mod pod;
mod queries;
pub(crate) mod revision;
mod scheduling;
pub(crate) mod secret;
pub(crate) mod service;
pub(crate) mod volume;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use operator_core::labels::{self, Labels};

use crate::{
    api::{PostgresCluster, Role},
    membership::{Serial, name_of_member},
};

/// Label with the name of the cluster.
pub const CLUSTER_LABEL: &str = "lukeb0nd.com/cluster";
/// Label with the name of the member.
pub const MEMBER_LABEL: &str = "lukeb0nd.com/member";
/// Label with the role of the member.
pub const ROLE_LABEL: &str = "lukeb0nd.com/role";
/// Annotation of a volume with the UID of the cluster that used it last.
pub const CLUSTER_UID: &str = "lukeb0nd.com/cluster-uid";
/// Annotation of a cluster that requests a switchover: the name of a member, or `any`. The controller
/// removes it when it has begun.
pub const SWITCHOVER: &str = "lukeb0nd.com/switchover";
/// Annotation of a cluster whose failover waits: the name of the member to promote although it may lack
/// rows, or `any`. The controller removes it when there is a target.
pub const FORCE_PROMOTE: &str = "lukeb0nd.com/force-promote";
/// Annotation of a cluster. Each new value restarts the members, one after the other.
pub const RESTART: &str = "lukeb0nd.com/restart";
/// Annotation of a cluster with the members that a person has fenced: their names, separated by
/// commas, or `*`.
pub const FENCE: &str = postgres_model::fence::FENCE;
/// Label of a Pod with a digest of what it was created from.
pub const REVISION_LABEL: &str = "lukeb0nd.com/revision";
/// Port of PostgreSQL.
pub const PORT: i32 = 5432;
/// Value of the labels for the application and for the component.
const APP: &str = "postgres";
const DATABASE: &str = "database";

/// Returns the name of a member, of its Pod, and of its volume.
pub(crate) fn member_name(cluster: &PostgresCluster, serial: Serial) -> String {
    name_of_member(&cluster.name_any(), serial)
}

/// Returns the serial number in the name of a member.
pub(crate) fn serial_of(cluster: &str, name: &str) -> Option<Serial> {
    let number = name.strip_prefix(cluster)?.strip_prefix('-')?;
    number.parse().ok().filter(|serial: &Serial| serial.to_string() == number)
}

/// Returns the label that selects the children of a cluster.
fn cluster_label(cluster: &PostgresCluster) -> Labels {
    [(CLUSTER_LABEL.to_owned(), cluster.name_any())].into()
}

/// Returns the labels that select the Pods of a cluster, of one role if it is given.
fn selector_labels(cluster: &PostgresCluster, role: Option<Role>) -> Labels {
    let mut labels = cluster_label(cluster);
    labels.extend(role.map(|role| (ROLE_LABEL.to_owned(), role.as_str().to_owned())));
    labels
}

/// Returns the selector of the Pods of a cluster.
fn selector(cluster: &PostgresCluster) -> LabelSelector {
    LabelSelector { match_labels: Some(selector_labels(cluster, None)), match_expressions: None }
}

/// Returns the selector of the Pods of a cluster as text.
pub(crate) fn selector_string(cluster: &PostgresCluster) -> String {
    format!("{CLUSTER_LABEL}={}", cluster.name_any())
}

/// Returns the labels of a child.
fn object_labels(cluster: &PostgresCluster) -> Labels {
    let mut all = labels::recommended(APP, &cluster.name_any(), DATABASE);
    all.extend(cluster_label(cluster));
    all
}

/// Returns the labels of a Pod or a volume of a member.
fn member_labels(cluster: &PostgresCluster, serial: Serial) -> Labels {
    let mut all = object_labels(cluster);
    all.insert(MEMBER_LABEL.to_owned(), member_name(cluster, serial));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_is_read_from_names_of_members_only() {
        for (name, serial) in [
            ("db-1", Some(1)),
            ("db-12", Some(12)),
            ("db-01", None),
            ("db-+1", None),
            ("db-x-1", None),
            ("db", None),
            ("other-1", None),
            ("db-99999999999", None),
        ] {
            assert_eq!(serial_of("db", name), serial, "{name}");
        }
    }
}
