//! `admission-cleanup.yaml` and `optional/cleanup.yaml`: permissions of the cleanup.
//!
//! The first holds what the manager needs when its namespace is deleted, in addition to the
//! permissions of its controllers. The second holds all that `ensemble-manager cleanup` needs.

use anyhow::Result;
use manager::CONTROLLERS;
use operator_core::manifests::Grant;
use operator_runtime::cleanup::{admission_rules, cleanup_rules, pod_rules};

use super::{ACCOUNT, NAMESPACE, in_cluster, manifest};
use crate::generate::{Generated, document};

const ADMISSION: &str = "admission-cleanup";
const COMMAND: &str = "cleanup";

/// Returns `admission-cleanup.yaml`.
pub(super) fn file() -> Result<Generated> {
    in_cluster(ADMISSION, &Grant::new(ADMISSION, admission_rules(CONTROLLERS)))
}

/// Returns `optional/cleanup.yaml`.
pub(super) fn command() -> Result<Generated> {
    let cluster = Grant::new(COMMAND, cleanup_rules(CONTROLLERS));
    let own = Grant::new(COMMAND, pod_rules());
    let documents = [
        document(&cluster.cluster_role())?,
        document(&cluster.cluster_role_binding(NAMESPACE, ACCOUNT))?,
        document(&own.role(Some(NAMESPACE)))?,
        document(&own.role_binding(Some(NAMESPACE), NAMESPACE, ACCOUNT))?,
    ];
    manifest(COMMAND, &documents)
}
