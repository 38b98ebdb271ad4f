//! What the members may do: a ServiceAccount with a Role for the cluster's object and its Lease.

use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
};
use kube::{Resource, ResourceExt};
use operator_core::labels;

use super::object_labels;
use crate::api::PostgresCluster;

const RBAC: &str = "rbac.authorization.k8s.io";
const LEASES: &str = "coordination.k8s.io";

/// Sets the desired state of the ServiceAccount. Only Pods that ask for its token get one.
pub(crate) fn mutate_account(cluster: &PostgresCluster, account: &mut ServiceAccount) {
    labels::add(&mut account.metadata.labels, object_labels(cluster));
    account.automount_service_account_token = Some(false);
}

/// Sets the desired state of the Role: read this cluster, read and update its Lease.
pub(crate) fn mutate_role(cluster: &PostgresCluster, role: &mut Role) {
    labels::add(&mut role.metadata.labels, object_labels(cluster));
    let name = cluster.name_any();
    let group = PostgresCluster::group(&()).into_owned();
    let plural = PostgresCluster::plural(&()).into_owned();
    role.rules = Some(vec![
        rule(&group, &plural, &name, &["list", "watch"]),
        rule(LEASES, "leases", &name, &["get", "update"]),
    ]);
}

fn rule(group: &str, resource: &str, name: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: Some(vec![name.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

/// Sets the desired state of the RoleBinding.
pub(crate) fn mutate_binding(cluster: &PostgresCluster, binding: &mut RoleBinding) {
    labels::add(&mut binding.metadata.labels, object_labels(cluster));
    let name = cluster.name_any();
    binding.role_ref =
        RoleRef { api_group: Some(RBAC.to_owned()), kind: Role::kind(&()).into_owned(), name: name.clone() };
    binding.subjects = Some(vec![Subject {
        kind: ServiceAccount::kind(&()).into_owned(),
        name,
        namespace: cluster.namespace(),
        ..Subject::default()
    }]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::fixture::cluster;

    #[test]
    fn members_may_read_their_cluster_and_hold_its_lease() {
        let cluster = cluster(&json!({}));
        let (mut role, mut binding) = (Role::default(), RoleBinding::default());
        mutate_role(&cluster, &mut role);
        mutate_binding(&cluster, &mut binding);
        insta::assert_yaml_snapshot!((role.rules, binding.role_ref, binding.subjects));
    }
}
