//! `leader-election.yaml`: the Leases of the controllers, and the permissions to hold them.

use anyhow::Result;
use manager::CONTROLLERS;
use operator_core::manifests::Grant;
use operator_runtime::election::{lease_name, rules, unused_lease};

use super::{ACCOUNT, NAMESPACE, manifest};
use crate::generate::{Generated, document};

const PART: &str = "leader-election";

pub(super) fn file() -> Result<Generated> {
    let leases: Vec<_> = CONTROLLERS.iter().map(|controller| lease_name(controller.name)).collect();
    let grant = Grant::new(PART, rules(leases.iter().map(String::as_str)));
    let binding = grant.role_binding(Some(NAMESPACE), NAMESPACE, ACCOUNT);
    let mut documents = vec![document(&grant.role(Some(NAMESPACE)))?, document(&binding)?];
    for controller in CONTROLLERS {
        documents.push(document(&unused_lease(controller.name, NAMESPACE))?);
    }
    manifest(PART, &documents)
}
