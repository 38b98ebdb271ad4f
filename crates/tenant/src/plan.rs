//! Desired state of the namespaces of a Tenant. Pure.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use capsule::{
    api::v1beta2::{Metadata, OwnerStatus, QuotaScope, Tenant, TenantOwner},
    owners::{add_owner, owners},
};
use k8s_openapi::{
    api::{
        core::v1::{LimitRange, Namespace, ResourceQuota, ResourceQuotaSpec},
        networking::v1::NetworkPolicy,
        rbac::v1::RoleBinding,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use kube::{Resource, ResourceExt};
use operator_core::ObjectKey;

use crate::{
    children::{
        Binding, cidr_warnings, limit_ranges, namespace_quota, network_policies, role_bindings, tenant_quota,
    },
    failure::Failures,
    namespace_metadata::{MetadataError, desired_metadata, foreign_metadata},
    namespaces::MemberNamespaces,
    owner_bindings::bindings,
    quota::{Division, QuotaError, Resources, divide},
    shared_quotas::{self, FoundQuotas, shared_quotas},
};

/// Desired state of one namespace.
pub(crate) struct DesiredNamespace {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) metadata: Metadata,
    /// Labels and annotations that were applied before. Those that are not desired are removed.
    pub(crate) last_applied: Metadata,
    /// Labels and annotations that `managedMetadataOnly` removes.
    pub(crate) foreign: Metadata,
    pub(crate) limit_ranges: Vec<LimitRange>,
    pub(crate) network_policies: Vec<NetworkPolicy>,
    pub(crate) resource_quotas: Vec<ResourceQuota>,
    pub(crate) role_bindings: Vec<RoleBinding>,
}

/// Desired state of all namespaces of a Tenant.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) owners: Vec<OwnerStatus>,
    pub(crate) namespaces: Vec<DesiredNamespace>,
    /// Invalid parts of the spec, which are skipped.
    pub(crate) failures: Failures,
    /// Whether Kubernetes does not count the objects of a new kind yet.
    pub(crate) awaits_counts: bool,
    /// Usage of the quotas that the namespaces share.
    pub(crate) used: Resources,
    /// Warnings for the message of the condition Ready.
    pub(crate) warnings: Vec<String>,
    /// Whether a quota could not be computed. Existing quotas are not pruned then.
    pub(crate) quotas_incomplete: bool,
}

impl Plan {
    /// Returns the keys of all objects of one kind.
    pub(crate) fn keys<'p, K: Resource + 'p>(
        &'p self,
        objects: fn(&DesiredNamespace) -> &Vec<K>,
    ) -> HashSet<ObjectKey> {
        self.namespaces.iter().flat_map(objects).map(ObjectKey::of).collect()
    }
}

/// Returns the desired state of the active namespaces.
///
/// `tenant_owners` are all `TenantOwner`s of the cluster, and `by_configuration` the owners that the
/// configuration adds. `found` returns the existing ResourceQuota of a namespace for the quota with a
/// key.
pub(crate) fn plan(
    tenant: &Tenant,
    tenant_owners: &[Arc<TenantOwner>],
    by_configuration: &[OwnerStatus],
    members: &MemberNamespaces,
    found: impl Fn(&str, &str) -> Option<Arc<ResourceQuota>>,
    now: Timestamp,
) -> Plan {
    let owners = all_owners(tenant, tenant_owners, by_configuration);
    let mut plan = Plan { owners, ..Plan::default() };
    let (bindings, invalid) = bindings(tenant, tenant_owners.iter().map(AsRef::as_ref), by_configuration);
    plan.failures.add_all(invalid);
    let mut quotas = quotas(tenant, members, found, now, &mut plan);
    // By index in the spec, so that an error is reported once and not for each namespace.
    let mut metadata_errors = BTreeMap::new();
    for namespace in &members.active {
        let (mut desired, errors) = desired_namespace(tenant, namespace, &bindings);
        desired.resource_quotas = quotas.remove(&namespace.name_any()).unwrap_or_default();
        plan.namespaces.push(desired);
        metadata_errors.extend(errors.into_iter().map(|error| (error.index, error)));
    }
    plan.failures.add_all(metadata_errors.into_values());
    plan.warnings.extend(tenant.spec.network_policies.iter().flat_map(cidr_warnings));
    plan
}

/// Returns the owners in the spec, the selected `TenantOwner`s, and those by the configuration.
pub(crate) fn all_owners(
    tenant: &Tenant,
    tenant_owners: &[Arc<TenantOwner>],
    by_configuration: &[OwnerStatus],
) -> Vec<OwnerStatus> {
    let mut owners = owners(tenant, tenant_owners.iter().map(AsRef::as_ref));
    for OwnerStatus { kind, name, cluster_roles } in by_configuration {
        add_owner(&mut owners, *kind, name, cluster_roles);
    }
    owners
}

/// Returns the desired state of one namespace without its quotas, which depend on the other
/// namespaces.
fn desired_namespace(
    tenant: &Tenant,
    namespace: &Arc<Namespace>,
    bindings: &[Binding],
) -> (DesiredNamespace, Vec<MetadataError>) {
    let (of, name, spec) = (tenant.name_any(), namespace.name_any(), &tenant.spec);
    let last_applied = last_applied_metadata(tenant, &namespace.metadata);
    let labels = unmanaged_labels(&namespace.metadata, &last_applied);
    let (metadata, errors) = desired_metadata(&of, spec, &name, &labels);
    let ranges = spec.limit_ranges.iter().flat_map(|ranges| limit_ranges(&of, &name, ranges));
    let policies = spec.network_policies.iter().flat_map(|policies| network_policies(&of, &name, policies));
    let desired = DesiredNamespace {
        namespace: namespace.clone(),
        foreign: foreign_metadata(spec, &namespace.metadata, &metadata),
        metadata,
        last_applied,
        limit_ranges: ranges.collect(),
        network_policies: policies.collect(),
        resource_quotas: Vec::new(),
        role_bindings: role_bindings(&of, &name, bindings),
    };
    (desired, errors)
}

/// Returns the labels and annotations that the controller has applied, as the status records them.
pub(crate) fn last_applied_metadata(tenant: &Tenant, namespace: &ObjectMeta) -> Metadata {
    let spaces = tenant.status.iter().flat_map(|status| &status.spaces);
    let mut spaces =
        spaces.filter(|space| Some(&space.name) == namespace.name.as_ref() && space.uid == namespace.uid);
    spaces.next().and_then(|space| space.metadata.clone()).unwrap_or_default()
}

/// Returns the labels that the controller did not apply.
///
/// Selectors match only these. Otherwise an entry could match because of its own labels, and then
/// no longer.
pub(crate) fn unmanaged_labels(namespace: &ObjectMeta, last_applied: &Metadata) -> BTreeMap<String, String> {
    let labels = namespace.labels.iter().flatten().filter(|(key, _)| !last_applied.labels.contains_key(*key));
    labels.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the ResourceQuotas by namespace.
fn quotas(
    tenant: &Tenant,
    members: &MemberNamespaces,
    found_quota: impl Fn(&str, &str) -> Option<Arc<ResourceQuota>>,
    now: Timestamp,
    plan: &mut Plan,
) -> BTreeMap<String, Vec<ResourceQuota>> {
    let mut computed = namespace_quotas(tenant, members);
    for (key, item) in shared_quotas(tenant) {
        let found = members.all().map(|namespace| namespace.name_any());
        let found = found.map(|namespace| (namespace.clone(), found_quota(&namespace, &key))).collect();
        match divide_among(&item, &found) {
            Ok(mut division) => {
                plan.awaits_counts |= shared_quotas::await_counts(&mut division.limits, &found, now);
                computed.extend(tenant_quota(&tenant.name_any(), &key, &item, &division));
                plan.used.extend(division.used);
            }
            Err(error) => {
                plan.failures.add(error);
                plan.quotas_incomplete = true;
            }
        }
    }
    plan.failures.add_all(shared_quotas::errors(tenant));
    let mut quotas: BTreeMap<String, Vec<ResourceQuota>> = BTreeMap::new();
    for quota in computed {
        quotas.entry(quota.namespace().unwrap_or_default()).or_default().push(quota);
    }
    quotas
}

/// Returns the ResourceQuotas of the items that limit each namespace separately.
fn namespace_quotas(tenant: &Tenant, members: &MemberNamespaces) -> Vec<ResourceQuota> {
    let spec = tenant.spec.resource_quotas.iter().filter(|quotas| quotas.scope == QuotaScope::Namespace);
    let items = spec.flat_map(|quotas| &quotas.items).enumerate();
    let of_item = |(index, item): (usize, &ResourceQuotaSpec)| {
        let (tenant, key, item) = (tenant.name_any(), index.to_string(), item.clone());
        let quota =
            move |namespace: &Arc<Namespace>| namespace_quota(&tenant, &namespace.name_any(), &key, &item);
        members.active.iter().map(quota)
    };
    items.flat_map(of_item).collect()
}

/// Divides a quota among the namespaces. The usage of terminating namespaces counts too.
fn divide_among(item: &ResourceQuotaSpec, found: &FoundQuotas) -> Result<Division, QuotaError> {
    let used = |quota: &Arc<ResourceQuota>| quota.status.as_ref()?.used.clone();
    let used = found
        .iter()
        .map(|(namespace, quota)| (namespace.clone(), quota.as_ref().and_then(used).unwrap_or_default()))
        .collect();
    divide(item.hard.as_ref().unwrap_or(&Resources::new()), &used)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn tenant(spec: &Value) -> Tenant {
        serde_json::from_value(json!({ "metadata": { "name": "oil", "uid": "1" }, "spec": spec })).unwrap()
    }

    fn namespace(name: &str, labels: Value) -> Arc<Namespace> {
        let metadata = json!({ "name": name, "uid": name, "labels": labels });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    fn members(active: &[&str], terminating: &[&str]) -> MemberNamespaces {
        let all = |names: &[&str]| names.iter().map(|name| namespace(name, json!({}))).collect();
        MemberNamespaces { active: all(active), terminating: all(terminating), mismatched: Vec::new() }
    }

    /// Returns a ResourceQuota with this number of Pods.
    fn pods(count: &str) -> ResourceQuota {
        serde_json::from_value(json!({ "status": { "used": { "pods": count } } })).unwrap()
    }

    fn hard_pods(plan: &Plan) -> Vec<(String, String)> {
        let quotas = plan.namespaces.iter().flat_map(|desired| &desired.resource_quotas);
        let limits = quotas.map(|quota| {
            let hard = quota.spec.as_ref().unwrap().hard.as_ref().unwrap();
            (quota.namespace().unwrap(), hard["pods"].0.clone())
        });
        limits.collect()
    }

    #[test]
    fn terminating_namespace_counts_for_the_quota_and_gets_no_objects() {
        let tenant = tenant(&json!({
            "resourceQuotas": { "items": [{ "hard": { "pods": "10" } }] },
            "limitRanges": { "items": [{ "limits": [] }] },
        }));
        let plan = plan(
            &tenant,
            &[],
            &[],
            &members(&["a", "b"], &["c"]),
            |namespace, key| {
                assert_eq!(key, "0");
                Some(Arc::new(pods(if namespace == "c" { "4" } else { "1" })))
            },
            NOW,
        );
        assert_eq!(hard_pods(&plan), [("a".to_owned(), "5".to_owned()), ("b".to_owned(), "5".to_owned())]);
        assert_eq!(plan.keys(|desired| &desired.limit_ranges).len(), 2);
        assert!(plan.failures.is_empty());
    }

    #[test]
    fn unreadable_quota_is_reported_and_prevents_pruning() {
        let tenant = tenant(&json!({ "resourceQuotas": { "items": [
            { "hard": { "pods": "many" } }, { "hard": { "pods": "2" } },
        ] } }));
        let plan = plan(&tenant, &[], &[], &members(&["a"], &[]), |_, _| None, NOW);
        assert!(plan.quotas_incomplete);
        assert!(plan.failures.to_string().contains("cannot read the limit of pods"));
        assert_eq!(hard_pods(&plan), [("a".to_owned(), "2".to_owned())]);
    }

    #[test]
    fn invalid_spec_entry_is_reported_once_for_all_namespaces() {
        let tenant = tenant(&json!({
            "owners": [{ "kind": "ServiceAccount", "name": "x", "clusterRoles": ["admin"] }],
            "namespaceOptions": { "additionalMetadataList": [
                { "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "Like" }] } },
            ] },
        }));
        let plan = plan(&tenant, &[], &[], &members(&["a", "b"], &[]), |_, _| None, NOW);
        assert_eq!(plan.failures.to_string().matches("additionalMetadataList[0]").count(), 1);
        assert!(plan.failures.to_string().contains("the owner \"x\" gets no rights"));
        assert!(plan.failures.need_spec_change());
    }

    /// Otherwise the label would be added and removed forever.
    #[test]
    fn selector_ignores_labels_that_the_controller_applied() {
        let mut tenant = tenant(&json!({ "namespaceOptions": { "additionalMetadataList": [{
            "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] },
            "labels": { "a": "b" },
        }] } }));
        let desired = |tenant: &Tenant, labels: Value| {
            let members =
                MemberNamespaces { active: vec![namespace("x", labels)], ..MemberNamespaces::default() };
            plan(tenant, &[], &[], &members, |_, _| None, NOW).namespaces.remove(0)
        };
        let first = desired(&tenant, json!({}));
        assert_eq!(first.metadata.labels["a"], "b");
        tenant.status = serde_json::from_value(json!({ "spaces": [
            { "name": "x", "uid": "x", "metadata": { "labels": { "a": "b" } } },
        ] }))
        .unwrap();
        let again = desired(&tenant, json!({ "a": "b" }));
        assert_eq!((again.metadata, again.last_applied), (first.metadata.clone(), first.metadata));
        let without_status = Tenant { status: None, ..tenant };
        assert!(desired(&without_status, json!({ "a": "user" })).metadata.labels.is_empty());
    }

    #[test]
    fn recreated_namespace_has_no_last_applied_metadata() {
        let mut tenant = tenant(&json!({}));
        tenant.status = serde_json::from_value(json!({ "spaces": [
            { "name": "x", "uid": "older", "metadata": { "labels": { "a": "b" } } },
        ] }))
        .unwrap();
        assert_eq!(last_applied_metadata(&tenant, &namespace("x", json!({})).metadata), Metadata::default());
    }
}
