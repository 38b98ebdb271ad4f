//! The revision of a Pod: a digest of all in the spec that a running Pod cannot follow.

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration, TopologySpreadConstraint};
use kube::ResourceExt;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use std::collections::BTreeMap;

use super::{RESTART, archive, queries};
use crate::api::{PostgresCluster, SecretKey};

/// What a revision depends on.
///
/// A new version of the manager restarts no database: neither the image of the instance manager nor
/// anything that the manager decides itself is part of it, and a field that is added later is left
/// out while it has its default.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Content<'a> {
    image: &'a str,
    resources: &'a Option<ResourceRequirements>,
    node_selector: &'a BTreeMap<String, String>,
    tolerations: &'a [Toleration],
    priority_class_name: &'a Option<String>,
    topology_spread_constraints: &'a [TopologySpreadConstraint],
    anti_affinity: bool,
    lease_seconds: u32,
    restart: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<Vec<(&'a str, &'a SecretKey)>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    synchronizes_logical_slots: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    queries: Option<&'a str>,
}

/// Returns the revision of Pods with this image of PostgreSQL.
pub(crate) fn revision(cluster: &PostgresCluster, image: &str) -> String {
    let spec = &cluster.spec;
    let content = Content {
        image,
        resources: &spec.resources,
        node_selector: &spec.node_selector,
        tolerations: &spec.tolerations,
        priority_class_name: &spec.priority_class_name,
        topology_spread_constraints: &spec.topology_spread_constraints,
        anti_affinity: spec.anti_affinity,
        lease_seconds: spec.failover.lease_seconds,
        archive: archive::references(cluster),
        synchronizes_logical_slots: spec.replication_slots.synchronize_logical,
        queries: queries::config_map(cluster),
        restart: cluster.annotations().get(RESTART).map(String::as_str),
    };
    // These types have only strings as keys, so they can be serialized.
    let json = serde_json::to_vec(&content).unwrap_or_default();
    let hash = digest(&SHA256, &json);
    let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
    format!("{:016x}", u64::from_be_bytes(first))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::fixture::cluster;

    #[test]
    fn revision_is_stable() {
        // Another value restarts all databases when the manager is upgraded.
        assert_eq!(revision(&cluster(&json!({})), "postgres:18.6"), "2de3faae2165530a");
    }

    #[test]
    fn revision_changes_with_what_a_running_pod_cannot_follow() {
        let base = revision(&cluster(&json!({})), "postgres:18.6");
        assert_ne!(revision(&cluster(&json!({})), "postgres:18.7"), base);
        for spec in [
            json!({"resources": {"limits": {"memory": "1Gi"}}}),
            json!({"nodeSelector": {"disk": "ssd"}}),
            json!({"antiAffinity": true}),
            json!({"priorityClassName": "high"}),
            json!({"failover": {"leaseSeconds": 30}}),
            json!({"replicationSlots": {"synchronizeLogical": true}}),
            json!({"monitoring": {"queriesConfigMap": "orders"}}),
        ] {
            assert_ne!(revision(&cluster(&spec), "postgres:18.6"), base, "{spec}");
        }
        for spec in [json!({"size": 5}), json!({"paused": true}), json!({"synchronous": {"number": 0}})] {
            assert_eq!(revision(&cluster(&spec), "postgres:18.6"), base, "{spec}");
        }
        let mut restarted = cluster(&json!({}));
        restarted.annotations_mut().insert(RESTART.to_owned(), "now".to_owned());
        assert_ne!(revision(&restarted, "postgres:18.6"), base);
    }
}
