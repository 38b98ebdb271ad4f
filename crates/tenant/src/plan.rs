//! What is to be in the namespaces of a Tenant. Pure.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        core::v1::{LimitRange, Namespace, ResourceQuota, ResourceQuotaSpec},
        networking::v1::NetworkPolicy,
        rbac::v1::RoleBinding,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt};
use operator_core::ObjectKey;

use crate::{
    api::v1beta2::{Metadata, OwnerStatus, QuotaScope, Tenant, TenantOwner},
    children::{
        Binding, cidr_warnings, limit_ranges, namespace_quota, network_policies, role_bindings, tenant_quota,
    },
    failure::Failures,
    namespace::{MetadataError, wanted},
    namespaces::Members,
    owners::{bindings, owners},
    quota::{QuotaError, Resources, divide},
};

/// What is to be in one namespace.
pub(crate) struct Wanted {
    pub(crate) namespace: Arc<Namespace>,
    /// The labels and annotations that it is to have.
    pub(crate) metadata: Metadata,
    /// Those that it was to have before, which are taken away where they are no longer wanted.
    pub(crate) remembered: Metadata,
    pub(crate) limit_ranges: Vec<LimitRange>,
    pub(crate) network_policies: Vec<NetworkPolicy>,
    pub(crate) resource_quotas: Vec<ResourceQuota>,
    pub(crate) role_bindings: Vec<RoleBinding>,
}

/// What is to be in all of them.
#[derive(Default)]
pub(crate) struct Plan {
    /// Everybody who owns the Tenant.
    pub(crate) owners: Vec<OwnerStatus>,
    pub(crate) namespaces: Vec<Wanted>,
    /// What of the spec cannot be carried out.
    pub(crate) failures: Failures,
    /// What people should know although nothing is wrong.
    pub(crate) notes: Vec<String>,
    /// Whether some quotas could not be worked out, so that those that are there must stay.
    pub(crate) quotas_unknown: bool,
}

impl Plan {
    /// The keys of all objects of one kind.
    pub(crate) fn keys<'p, K: Resource + 'p>(&'p self, of: fn(&Wanted) -> &Vec<K>) -> HashSet<ObjectKey> {
        self.namespaces.iter().flat_map(of).map(ObjectKey::of).collect()
    }
}

/// What is to be in the namespaces in use. `among` are all `TenantOwner`s; `used` says how much of the quota with an index
/// a namespace uses.
pub(crate) fn plan(
    tenant: &Tenant,
    among: &[Arc<TenantOwner>],
    members: &Members,
    used: impl Fn(&str, usize) -> Resources,
) -> Plan {
    let among = || among.iter().map(AsRef::as_ref);
    let mut plan = Plan { owners: owners(tenant, among()), ..Plan::default() };
    let (bindings, malformed) = bindings(tenant, among());
    plan.failures.add_all(malformed);
    let mut quotas = quotas(tenant, members, used, &mut plan);
    // By entry of the spec, so that each is told once and not for every namespace.
    let mut unusable = BTreeMap::new();
    for namespace in &members.live {
        let (mut wanted, errors) = within(tenant, namespace, &bindings);
        wanted.resource_quotas = quotas.remove(&namespace.name_any()).unwrap_or_default();
        plan.namespaces.push(wanted);
        unusable.extend(errors.into_iter().map(|error| (error.index, error)));
    }
    plan.failures.add_all(unusable.into_values());
    plan.notes.extend(tenant.spec.network_policies.iter().flat_map(cidr_warnings));
    plan
}

/// What is to be in one namespace but for the quotas, which depend on the others.
fn within(tenant: &Tenant, namespace: &Arc<Namespace>, bindings: &[Binding]) -> (Wanted, Vec<MetadataError>) {
    let (of, name, spec) = (tenant.name_any(), namespace.name_any(), &tenant.spec);
    let remembered = remembered(tenant, &namespace.metadata);
    let (metadata, errors) = wanted(&of, spec, &name, &labels_of_others(&namespace.metadata, &remembered));
    let ranges = spec.limit_ranges.iter().flat_map(|ranges| limit_ranges(&of, &name, ranges));
    let policies = spec.network_policies.iter().flat_map(|policies| network_policies(&of, &name, policies));
    let wanted = Wanted {
        namespace: namespace.clone(),
        metadata,
        remembered,
        limit_ranges: ranges.collect(),
        network_policies: policies.collect(),
        resource_quotas: Vec::new(),
        role_bindings: role_bindings(&of, &name, bindings),
    };
    (wanted, errors)
}

/// What the controller is known to have put on the namespace.
pub(crate) fn remembered(tenant: &Tenant, namespace: &ObjectMeta) -> Metadata {
    let spaces = tenant.status.iter().flat_map(|status| &status.spaces);
    let mut spaces =
        spaces.filter(|space| Some(&space.name) == namespace.name.as_ref() && space.uid == namespace.uid);
    spaces.next().and_then(|space| space.metadata.clone()).unwrap_or_default()
}

/// The labels that selectors go by: not those that the controller put there itself, or a selector could undo
/// its own choice.
pub(crate) fn labels_of_others(namespace: &ObjectMeta, remembered: &Metadata) -> BTreeMap<String, String> {
    let labels = namespace.labels.iter().flatten().filter(|(key, _)| !remembered.labels.contains_key(*key));
    labels.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The ResourceQuotas of each namespace.
fn quotas(
    tenant: &Tenant,
    members: &Members,
    used: impl Fn(&str, usize) -> Resources,
    plan: &mut Plan,
) -> BTreeMap<String, Vec<ResourceQuota>> {
    let mut quotas: BTreeMap<String, Vec<ResourceQuota>> = BTreeMap::new();
    let Some(wanted) = &tenant.spec.resource_quotas else { return quotas };
    for (index, item) in wanted.items.iter().enumerate() {
        let made = match wanted.scope {
            QuotaScope::Namespace => Ok(each_alone(tenant, members, index, item)),
            QuotaScope::Tenant => all_together(tenant, members, index, item, &used),
        };
        let made = made.unwrap_or_else(|error| {
            plan.failures.add(error);
            plan.quotas_unknown = true;
            Vec::new()
        });
        for quota in made {
            quotas.entry(quota.namespace().unwrap_or_default()).or_default().push(quota);
        }
    }
    quotas
}

fn each_alone(
    tenant: &Tenant,
    members: &Members,
    index: usize,
    item: &ResourceQuotaSpec,
) -> Vec<ResourceQuota> {
    let quota =
        |namespace: &Arc<Namespace>| namespace_quota(&tenant.name_any(), &namespace.name_any(), index, item);
    members.live.iter().map(quota).collect()
}

/// What namespaces on their way out still use counts too.
fn all_together(
    tenant: &Tenant,
    members: &Members,
    index: usize,
    item: &ResourceQuotaSpec,
    used: impl Fn(&str, usize) -> Resources,
) -> Result<Vec<ResourceQuota>, QuotaError> {
    let names = members.all().map(|namespace| namespace.name_any());
    let used = names.map(|name| (name.clone(), used(&name, index))).collect();
    let division = divide(item.hard.as_ref().unwrap_or(&Resources::new()), &used)?;
    Ok(tenant_quota(&tenant.name_any(), index, item, &division))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use serde_json::{Value, json};

    use super::*;

    fn tenant(spec: &Value) -> Tenant {
        serde_json::from_value(json!({ "metadata": { "name": "oil", "uid": "1" }, "spec": spec })).unwrap()
    }

    fn namespace(name: &str, labels: Value) -> Arc<Namespace> {
        let metadata = json!({ "name": name, "uid": name, "labels": labels });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    fn members(live: &[&str], leaving: &[&str]) -> Members {
        let all = |names: &[&str]| names.iter().map(|name| namespace(name, json!({}))).collect();
        Members { live: all(live), leaving: all(leaving), strays: Vec::new() }
    }

    fn pods(count: &str) -> Resources {
        [("pods".to_owned(), Quantity(count.to_owned()))].into()
    }

    fn granted(plan: &Plan) -> Vec<(String, String)> {
        let quotas = plan.namespaces.iter().flat_map(|wanted| &wanted.resource_quotas);
        let granted = quotas.map(|quota| {
            let hard = quota.spec.as_ref().unwrap().hard.as_ref().unwrap();
            (quota.namespace().unwrap(), hard["pods"].0.clone())
        });
        granted.collect()
    }

    #[test]
    fn what_a_leaving_namespace_uses_counts_and_nothing_is_made_in_it() {
        let tenant = tenant(&json!({
            "resourceQuotas": { "items": [{ "hard": { "pods": "10" } }] },
            "limitRanges": { "items": [{ "limits": [] }] },
        }));
        let plan = plan(&tenant, &[], &members(&["a", "b"], &["c"]), |namespace, index| {
            assert_eq!(index, 0);
            pods(if namespace == "c" { "4" } else { "1" })
        });
        assert_eq!(granted(&plan), [("a".to_owned(), "5".to_owned()), ("b".to_owned(), "5".to_owned())]);
        assert_eq!(plan.keys(|wanted| &wanted.limit_ranges).len(), 2);
        assert!(plan.failures.is_empty());
    }

    #[test]
    fn a_quota_that_cannot_be_worked_out_is_told_and_nothing_is_pruned_for_it() {
        let tenant = tenant(&json!({ "resourceQuotas": { "items": [
            { "hard": { "pods": "many" } }, { "hard": { "pods": "2" } },
        ] } }));
        let plan = plan(&tenant, &[], &members(&["a"], &[]), |_, _| Resources::new());
        assert!(plan.quotas_unknown);
        assert!(plan.failures.to_string().contains("cannot read the limit of pods"));
        assert_eq!(granted(&plan), [("a".to_owned(), "2".to_owned())]);
    }

    #[test]
    fn a_mistake_in_the_spec_is_told_once_for_all_namespaces() {
        let tenant = tenant(&json!({
            "owners": [{ "kind": "ServiceAccount", "name": "x", "clusterRoles": ["admin"] }],
            "namespaceOptions": { "additionalMetadataList": [
                { "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "Like" }] } },
            ] },
        }));
        let plan = plan(&tenant, &[], &members(&["a", "b"], &[]), |_, _| Resources::new());
        assert_eq!(plan.failures.to_string().matches("additionalMetadataList[0]").count(), 1);
        assert!(plan.failures.to_string().contains("the owner \"x\" gets no rights"));
        assert!(plan.failures.need_other_spec());
    }

    /// Else the label would come and go for ever.
    #[test]
    fn a_selector_does_not_see_what_it_has_put_there_itself() {
        let mut tenant = tenant(&json!({ "namespaceOptions": { "additionalMetadataList": [{
            "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] },
            "labels": { "a": "b" },
        }] } }));
        let wanted = |tenant: &Tenant, labels: Value| {
            let members = Members { live: vec![namespace("x", labels)], ..Members::default() };
            plan(tenant, &[], &members, |_, _| Resources::new()).namespaces.remove(0)
        };
        let first = wanted(&tenant, json!({}));
        assert_eq!(first.metadata.labels["a"], "b");
        tenant.status = serde_json::from_value(json!({ "spaces": [
            { "name": "x", "uid": "x", "metadata": { "labels": { "a": "b" } } },
        ] }))
        .unwrap();
        let again = wanted(&tenant, json!({ "a": "b" }));
        assert_eq!((again.metadata, again.remembered), (first.metadata.clone(), first.metadata));
        let theirs = Tenant { status: None, ..tenant };
        assert!(wanted(&theirs, json!({ "a": "theirs" })).metadata.labels.is_empty());
    }

    #[test]
    fn a_namesake_has_nothing_to_remember() {
        let mut tenant = tenant(&json!({}));
        tenant.status = serde_json::from_value(json!({ "spaces": [
            { "name": "x", "uid": "older", "metadata": { "labels": { "a": "b" } } },
        ] }))
        .unwrap();
        assert_eq!(remembered(&tenant, &namespace("x", json!({})).metadata), Metadata::default());
    }
}
