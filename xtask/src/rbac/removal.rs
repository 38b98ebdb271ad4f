//! `removal.yaml`: what the manager lets go of when its namespace is deleted, besides what its controllers may change anyway;
//! and `optional/release.yaml`: all that `ensemble-manager release` needs by itself.

use anyhow::Result;
use manager::CONTROLLERS;
use operator_core::rbac::Grant;
use operator_runtime::release::{cluster_rules, pod_rules, release_rules};

use super::{ACCOUNT, NAMESPACE, in_cluster, manifest};
use crate::generate::{Generated, document};

const PART: &str = "removal";
const COMMAND: &str = "release";

pub(super) fn file() -> Result<Generated> {
    in_cluster(PART, &Grant::new(PART, cluster_rules(CONTROLLERS)))
}

pub(super) fn command() -> Result<Generated> {
    let cluster = Grant::new(COMMAND, release_rules(CONTROLLERS));
    let own = Grant::new(COMMAND, pod_rules());
    let documents = [
        document(&cluster.cluster_role())?,
        document(&cluster.cluster_role_binding(NAMESPACE, ACCOUNT))?,
        document(&own.role(Some(NAMESPACE)))?,
        document(&own.role_binding(Some(NAMESPACE), NAMESPACE, ACCOUNT))?,
    ];
    manifest(COMMAND, &documents)
}
