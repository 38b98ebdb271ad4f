//! What the metrics say of each Tenant. Pure.
//!
//! Names and labels are part of the contract.

use k8s_openapi::{api::core::v1::ResourceQuota, apimachinery::pkg::apis::meta::v1::Condition};
use kube::ResourceExt;
use operator_core::{
    environment::Setting,
    metrics::{Gauge, GaugeSamples},
    quantity::Quantity,
};

use crate::{
    api::{
        names::RESOURCE_QUOTA_LABEL,
        v1beta2::{QuotaScope, Tenant},
    },
    quota::Resources,
};

/// Whether there are any: they name Tenants and namespaces, so there are as many series as the cluster has of these.
pub(crate) const SHOWN: Setting = Setting {
    flag: "tenant-metrics",
    env: "TENANT_METRICS",
    default: "true",
    values: &["true", "false"],
    help: "Show metrics about each Tenant and its namespaces, by name",
};

const TENANT: (&str, &str) = ("tenant", "the name of the Tenant");
const NAMESPACE: (&str, &str) = ("target_namespace", "the name of the namespace");
const CONDITION: (&str, &str) = ("condition", "the type of the condition");
const RESOURCE: (&str, &str) =
    ("resource", "the resource as the quota names it; `namespaces` for the number of namespaces");
const INDEX: (&str, &str) =
    ("resourcequotaindex", "the place of the quota in `spec.resourceQuotas.items`; empty for `namespaces`");

static RELATIONSHIP: Gauge = Gauge {
    name: "capsule_tenant_namespace_relationship",
    help: "Always 1; its labels say which namespace belongs to which Tenant",
    labels: &[TENANT, NAMESPACE],
};
static NAMESPACE_CONDITION: Gauge = Gauge {
    name: "capsule_tenant_namespace_condition",
    help: "Whether a condition of a namespace of a Tenant is true",
    labels: &[TENANT, NAMESPACE, CONDITION],
};
static TENANT_CONDITION: Gauge = Gauge {
    name: "capsule_tenant_condition",
    help: "Whether a condition of a Tenant is true",
    labels: &[TENANT, CONDITION],
};
static COUNT: Gauge = Gauge {
    name: "capsule_tenant_namespace_count",
    help: "How many namespaces a Tenant has",
    labels: &[TENANT],
};
static USAGE: Gauge = Gauge {
    name: "capsule_tenant_resource_usage",
    help: "How much of a resource a Tenant uses, where its namespaces share a quota of it",
    labels: &[TENANT, RESOURCE, INDEX],
};
static LIMIT: Gauge = Gauge {
    name: "capsule_tenant_resource_limit",
    help: "How much of a resource a Tenant may use, where its namespaces share a quota of it",
    labels: &[TENANT, RESOURCE, INDEX],
};

/// All of them.
pub(crate) static GAUGES: &[&Gauge] =
    &[&RELATIONSHIP, &NAMESPACE_CONDITION, &TENANT_CONDITION, &COUNT, &USAGE, &LIMIT];

/// The series of one gauge.
type Series = Vec<(Vec<String>, f64)>;

/// What the gauges say of these Tenants. `quotas` are the `ResourceQuota`s that a Tenant controls.
pub(crate) fn readings<T, Q>(
    tenants: impl IntoIterator<Item = T>,
    quotas: impl Fn(&Tenant) -> Vec<Q>,
) -> Vec<GaugeSamples>
where
    T: AsRef<Tenant>,
    Q: AsRef<ResourceQuota>,
{
    let mut series: [Series; 6] = Default::default();
    let [relationship, namespace_condition, tenant_condition, count, usage, limit] = &mut series;
    for tenant in tenants {
        let tenant = tenant.as_ref();
        let name = tenant.name_any();
        let status = tenant.status.clone().unwrap_or_default();
        let size = u32::try_from(status.spaces.len()).map_or(f64::MAX, f64::from);
        count.push((vec![name.clone()], size));
        conditions(tenant_condition, &[&name], &status.conditions);
        for space in &status.spaces {
            relationship.push((vec![name.clone(), space.name.clone()], 1.0));
            conditions(namespace_condition, &[&name, &space.name], &space.conditions);
        }
        let of_namespaces = || vec![name.clone(), "namespaces".to_owned(), String::new()];
        usage.push((of_namespaces(), size));
        let most = tenant.spec.namespace_options.iter().filter_map(|options| options.quota);
        limit.extend(most.map(|most| (of_namespaces(), f64::from(most))));
        shared(tenant, &quotas(tenant), usage, limit);
    }
    GAUGES.iter().copied().zip(series).map(|(gauge, series)| GaugeSamples { gauge, series }).collect()
}

/// 1 for each condition that is true, 0 for each other.
fn conditions(series: &mut Series, words: &[&String], conditions: &[Condition]) {
    for condition in conditions {
        let words = words.iter().copied().chain([&condition.type_]).cloned().collect();
        series.push((words, if condition.status == "True" { 1.0 } else { 0.0 }));
    }
}

/// The quotas that the namespaces of a Tenant share. What cannot be read as an amount is left out.
fn shared<Q: AsRef<ResourceQuota>>(tenant: &Tenant, quotas: &[Q], usage: &mut Series, limit: &mut Series) {
    let spec = tenant.spec.resource_quotas.iter().filter(|quotas| quotas.scope == QuotaScope::Tenant);
    for (index, item) in spec.flat_map(|quotas| &quotas.items).enumerate() {
        let index = index.to_string();
        let used: Vec<_> = quotas.iter().filter_map(|quota| used(quota.as_ref(), &index)).collect();
        for (resource, hard) in item.hard.iter().flatten() {
            let words = || vec![tenant.name_any(), resource.clone(), index.clone()];
            let amounts = used.iter().filter_map(|used| Quantity::try_from(used.get(resource)?).ok());
            usage.push((words(), amounts.fold(Quantity::ZERO, Quantity::saturating_add).to_f64()));
            limit.extend(Quantity::try_from(hard).map(|hard| (words(), hard.to_f64())));
        }
    }
}

/// What a namespace uses, if the `ResourceQuota` is its part of the quota with this index.
fn used<'q>(quota: &'q ResourceQuota, index: &str) -> Option<&'q Resources> {
    let is_of_it = quota.labels().get(RESOURCE_QUOTA_LABEL).is_some_and(|label| label == index);
    quota.status.as_ref().filter(|_| is_of_it)?.used.as_ref()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn quota(index: &str, used: Value) -> Arc<ResourceQuota> {
        let metadata = json!({ "name": "q", "labels": { RESOURCE_QUOTA_LABEL: index } });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata, "status": { "used": used } })).unwrap())
    }

    /// The series of a gauge, each as its labels' words and the value.
    fn shown(spec: Value, status: Value, quotas: &[Arc<ResourceQuota>], gauge: &str) -> Vec<String> {
        let tenant = json!({ "metadata": { "name": "oil" }, "spec": spec, "status": status });
        let tenant: Arc<Tenant> = Arc::new(serde_json::from_value(tenant).unwrap());
        let readings = readings([tenant], |_| quotas.to_vec());
        let reading = readings.into_iter().find(|reading| reading.gauge.name == gauge).unwrap();
        assert!(reading.series.iter().all(|(words, _)| words.len() == reading.gauge.labels.len()));
        reading.series.iter().map(|(words, value)| format!("{} {value}", words.join(","))).collect()
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({ "type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" })
    }

    #[test]
    fn namespaces_and_conditions_are_told_by_name() {
        let space = json!({ "name": "oil-dev", "conditions": [condition("Ready", "True")] });
        let status = json!({ "conditions": [condition("Ready", "True"), condition("Cordoned", "False")], "spaces": [space] });
        let shown =
            |gauge: &str| shown(json!({ "namespaceOptions": { "quota": 3 } }), status.clone(), &[], gauge);
        assert_eq!(shown("capsule_tenant_namespace_relationship"), ["oil,oil-dev 1"]);
        assert_eq!(shown("capsule_tenant_namespace_condition"), ["oil,oil-dev,Ready 1"]);
        assert_eq!(shown("capsule_tenant_condition"), ["oil,Ready 1", "oil,Cordoned 0"]);
        assert_eq!(shown("capsule_tenant_namespace_count"), ["oil 1"]);
        assert_eq!(shown("capsule_tenant_resource_usage"), ["oil,namespaces, 1"]);
        assert_eq!(shown("capsule_tenant_resource_limit"), ["oil,namespaces, 3"]);
    }

    #[test]
    fn what_namespaces_use_of_a_shared_quota_is_added_up() {
        let items = json!([{ "hard": { "pods": "10" } }, { "hard": { "limits.cpu": "2" } }]);
        let quotas = [
            quota("0", json!({ "pods": "2" })),
            quota("0", json!({ "pods": "1", "services": "7" })),
            quota("1", json!({ "limits.cpu": "250m" })),
            quota("0", json!({ "pods": "many" })),
        ];
        let spec = json!({ "resourceQuotas": { "items": items } });
        let usage = shown(spec.clone(), json!({}), &quotas, "capsule_tenant_resource_usage");
        assert_eq!(usage, ["oil,namespaces, 0", "oil,pods,0 3", "oil,limits.cpu,1 0.25"]);
        let limit = shown(spec, json!({}), &quotas, "capsule_tenant_resource_limit");
        assert_eq!(limit, ["oil,pods,0 10", "oil,limits.cpu,1 2"]);
    }

    #[test]
    fn a_quota_of_each_namespace_is_nothing_that_the_tenant_uses() {
        let spec =
            json!({ "resourceQuotas": { "scope": "Namespace", "items": [{ "hard": { "pods": "10" } }] } });
        let usage =
            shown(spec, json!({}), &[quota("0", json!({ "pods": "2" }))], "capsule_tenant_resource_usage");
        assert_eq!(usage, ["oil,namespaces, 0"]);
    }
}
