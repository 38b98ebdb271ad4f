//! `metrics-auth.yaml`: permissions of the metrics server to authenticate clients, and of clients
//! to read metrics.

use anyhow::Result;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::core::ObjectMeta;
use operator_core::{labels, manifests::Grant};
use operator_runtime::metrics::rules;

use super::{ACCOUNT, NAMESPACE, manifest};
use crate::generate::{Generated, document};

const PART: &str = "metrics-auth";
/// ClusterRole for clients that read the metrics, which the user binds.
const READER: &str = "ensemble-metrics-reader";

pub(super) fn file() -> Result<Generated> {
    let grant = Grant::new(PART, rules());
    let binding = grant.cluster_role_binding(NAMESPACE, ACCOUNT);
    manifest(PART, &[document(&grant.cluster_role())?, document(&binding)?, document(&reader())?])
}

fn reader() -> ClusterRole {
    let metrics = PolicyRule {
        non_resource_urls: Some(vec!["/metrics".to_owned()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    };
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(READER.to_owned()),
            labels: Some(labels::recommended("ensemble", "ensemble", PART)),
            ..ObjectMeta::default()
        },
        rules: Some(vec![metrics]),
        aggregation_rule: None,
    }
}
