//! `optional/replication.yaml`: permissions for replications that depend on your policy.

use anyhow::Result;
use capsule::api::{
    names::AGGREGATE_TO_CONTROLLER_LABEL,
    v1beta2::{GlobalTenantResource, TenantResource},
};
use k8s_openapi::{
    api::{
        core::v1::Secret,
        rbac::v1::{AggregationRule, ClusterRole},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use operator_core::{
    kind::Kind,
    manifests::Grant,
    rbac::{CREATE, DELETE, GET, LIST, PATCH, UPDATE, WATCH, rule},
};

use super::{ACCOUNT, NAMESPACE, manifest};
use crate::generate::{Generated, document};

/// Label of ClusterRoles whose rules `admin` gets.
const AGGREGATE_TO_ADMIN: &str = "rbac.authorization.k8s.io/aggregate-to-admin";

/// Returns a ClusterRole that lets the owners of Tenants write TenantResources, one for
/// administrators, the permissions with which the manager acts itself, and the permission to read
/// the authorities of `spec.impersonation` of the CapsuleConfiguration.
pub(super) fn file() -> Result<Generated> {
    let mut owners = writers::<TenantResource>("tenantresource-owner");
    let label = (AGGREGATE_TO_ADMIN.to_owned(), "true".to_owned());
    owners.metadata.labels.get_or_insert_default().extend([label]);
    let administrators = writers::<GlobalTenantResource>("globaltenantresource-administrator");
    let manager = Grant::new("replication", Vec::new());
    let selector = LabelSelector {
        match_labels: Some([(AGGREGATE_TO_CONTROLLER_LABEL.to_owned(), "true".to_owned())].into()),
        ..LabelSelector::default()
    };
    let aggregated = ClusterRole {
        aggregation_rule: Some(AggregationRule { cluster_role_selectors: Some(vec![selector]) }),
        rules: None,
        ..manager.cluster_role()
    };
    let authorities = Grant::new("replication-authorities", vec![rule::<Secret>(GET)]);
    let namespace = Some(NAMESPACE);
    let documents = [
        document(&owners)?,
        document(&administrators)?,
        document(&aggregated)?,
        document(&manager.cluster_role_binding(NAMESPACE, ACCOUNT))?,
        document(&authorities.role(namespace))?,
        document(&authorities.role_binding(namespace, NAMESPACE, ACCOUNT))?,
    ];
    manifest("replication", &documents)
}

fn writers<K: Kind>(name: &str) -> ClusterRole {
    Grant::new(name, vec![rule::<K>(GET | LIST | WATCH | CREATE | UPDATE | PATCH | DELETE)]).cluster_role()
}
