//! `removal.yaml`: what the manager lets go of when its namespace is deleted, besides what its controllers may change anyway;
//! and `optional/release.yaml`: all that `ensemble-manager release` needs by itself.

use anyhow::Result;
use manager::CONTROLLERS;
use operator_core::rbac::Grant;
use operator_runtime::release::{cluster_rules, release_rules};

use super::in_cluster;
use crate::generate::Generated;

const PART: &str = "removal";
const COMMAND: &str = "release";

pub(super) fn file() -> Result<Generated> {
    in_cluster(PART, &Grant::new(PART, cluster_rules(CONTROLLERS)))
}

pub(super) fn command() -> Result<Generated> {
    in_cluster(COMMAND, &Grant::new(COMMAND, release_rules(CONTROLLERS)))
}
