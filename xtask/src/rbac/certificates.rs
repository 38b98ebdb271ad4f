//! `certificates.yaml`: permissions to manage the certificate Secret, and to write `caBundle`.

use anyhow::Result;
use manager::{CONTROLLERS, ca_bundle_targets};
use operator_core::manifests::Grant;
use operator_runtime::certificates::{cluster_rules, rules};

use super::{ACCOUNT, NAMESPACE, manifest};
use crate::generate::{Generated, document};

const PART: &str = "certificates";

pub(super) fn file() -> Result<Generated> {
    let namespace = Some(NAMESPACE);
    let own = Grant::new(PART, rules());
    let cluster = Grant::new(PART, cluster_rules(&ca_bundle_targets(CONTROLLERS)));
    let documents = [
        document(&own.role(namespace))?,
        document(&own.role_binding(namespace, NAMESPACE, ACCOUNT))?,
        document(&cluster.cluster_role())?,
        document(&cluster.cluster_role_binding(NAMESPACE, ACCOUNT))?,
    ];
    manifest(PART, &documents)
}
