//! Metrics of Tenants. Pure.
//!
//! Names and labels are those of Capsule.

use capsule::{
    api::{names::RESOURCE_QUOTA_LABEL, v1beta2::Tenant},
    condition_series::condition_series,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::ResourceExt;
use operator_core::{
    environment::{Setting, Values},
    metrics::{Gauge, GaugeSamples},
    quantity::Quantity,
};

use crate::{quota::Resources, shared_quotas::shared_quotas};

/// Setting that exposes the metrics of Tenants. Their number of series grows with the number of
/// Tenants and namespaces.
pub(crate) const TENANT_METRICS: Setting = Setting {
    flag: "tenant-metrics",
    env: "TENANT_METRICS",
    default: "true",
    values: Values::OneOf(&["true", "false"]),
    help: "Expose metrics for each Tenant and each of its namespaces, labelled with their names",
};

const TENANT: (&str, &str) = ("tenant", "name of the Tenant");
const NAMESPACE: (&str, &str) = ("target_namespace", "name of the namespace");
const CONDITION: (&str, &str) = ("condition", "type of the condition");
const RESOURCE: (&str, &str) =
    ("resource", "name of the resource in the quota; `namespaces` for the number of namespaces");
const INDEX: (&str, &str) = (
    "resourcequotaindex",
    "index of the quota in `spec.resourceQuotas.items`, or `object-counts` for a quota in an annotation; empty for \
     `namespaces`",
);

static RELATIONSHIP: Gauge = Gauge {
    name: "capsule_tenant_namespace_relationship",
    help: "Always 1; the labels map a namespace to its Tenant",
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
    help: "Number of namespaces of a Tenant",
    labels: &[TENANT],
};
static USAGE: Gauge = Gauge {
    name: "capsule_tenant_resource_usage",
    help: "Usage of a resource whose quota the namespaces of a Tenant share",
    labels: &[TENANT, RESOURCE, INDEX],
};
static LIMIT: Gauge = Gauge {
    name: "capsule_tenant_resource_limit",
    help: "Limit of a resource whose quota the namespaces of a Tenant share",
    labels: &[TENANT, RESOURCE, INDEX],
};

/// Gauges of this controller.
pub(crate) static GAUGES: &[&Gauge] =
    &[&RELATIONSHIP, &NAMESPACE_CONDITION, &TENANT_CONDITION, &COUNT, &USAGE, &LIMIT];

/// The series of one gauge.
type Series = Vec<(Vec<String>, f64)>;

/// Returns the readings of the gauges. `quotas` returns the `ResourceQuota`s that a Tenant
/// controls.
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
        tenant_condition.extend(condition_series(&[&name], &status.conditions));
        for space in &status.spaces {
            relationship.push((vec![name.clone(), space.name.clone()], 1.0));
            namespace_condition.extend(condition_series(&[&name, &space.name], &space.conditions));
        }
        let of_namespaces = || vec![name.clone(), "namespaces".to_owned(), String::new()];
        usage.push((of_namespaces(), size));
        let quota = tenant.spec.namespace_options.iter().filter_map(|options| options.quota);
        limit.extend(quota.map(|quota| (of_namespaces(), f64::from(quota))));
        add_shared_quotas(tenant, &quotas(tenant), usage, limit);
    }
    GAUGES.iter().copied().zip(series).map(|(gauge, series)| GaugeSamples { gauge, series }).collect()
}

/// Adds the quotas that the namespaces of a Tenant share. Unreadable quantities are skipped.
fn add_shared_quotas<Q: AsRef<ResourceQuota>>(
    tenant: &Tenant,
    quotas: &[Q],
    usage: &mut Series,
    limit: &mut Series,
) {
    for (key, item) in shared_quotas(tenant) {
        let used: Vec<_> = quotas.iter().filter_map(|quota| usage_of(quota.as_ref(), &key)).collect();
        for (resource, hard) in item.hard.iter().flatten() {
            let labels = || vec![tenant.name_any(), resource.clone(), key.clone()];
            let quantities = used.iter().filter_map(|used| Quantity::try_from(used.get(resource)?).ok());
            usage.push((labels(), quantities.fold(Quantity::ZERO, Quantity::saturating_add).to_f64()));
            limit.extend(Quantity::try_from(hard).map(|hard| (labels(), hard.to_f64())));
        }
    }
}

/// Returns the usage of a namespace if the `ResourceQuota` belongs to the quota with this key.
fn usage_of<'q>(quota: &'q ResourceQuota, key: &str) -> Option<&'q Resources> {
    let has_key = quota.labels().get(RESOURCE_QUOTA_LABEL).is_some_and(|label| label == key);
    quota.status.as_ref().filter(|_| has_key)?.used.as_ref()
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

    /// Returns the series of a gauge, each as its label values and its value.
    fn series(spec: Value, status: Value, quotas: &[Arc<ResourceQuota>], gauge: &str) -> Vec<String> {
        let tenant = json!({ "metadata": { "name": "oil" }, "spec": spec, "status": status });
        let tenant: Arc<Tenant> = Arc::new(serde_json::from_value(tenant).unwrap());
        let readings = readings([tenant], |_| quotas.to_vec());
        let reading = readings.into_iter().find(|reading| reading.gauge.name == gauge).unwrap();
        assert!(reading.series.iter().all(|(labels, _)| labels.len() == reading.gauge.labels.len()));
        reading.series.iter().map(|(labels, value)| format!("{} {value}", labels.join(","))).collect()
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({ "type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" })
    }

    #[test]
    fn series_count_namespaces_and_show_conditions() {
        let space = json!({ "name": "oil-dev", "conditions": [condition("Ready", "True")] });
        let status = json!({ "conditions": [condition("Ready", "True"), condition("Cordoned", "False")], "spaces": [space] });
        let series =
            |gauge: &str| series(json!({ "namespaceOptions": { "quota": 3 } }), status.clone(), &[], gauge);
        assert_eq!(series("capsule_tenant_namespace_relationship"), ["oil,oil-dev 1"]);
        assert_eq!(series("capsule_tenant_namespace_condition"), ["oil,oil-dev,Ready 1"]);
        assert_eq!(series("capsule_tenant_condition"), ["oil,Ready 1", "oil,Cordoned 0"]);
        assert_eq!(series("capsule_tenant_namespace_count"), ["oil 1"]);
        assert_eq!(series("capsule_tenant_resource_usage"), ["oil,namespaces, 1"]);
        assert_eq!(series("capsule_tenant_resource_limit"), ["oil,namespaces, 3"]);
    }

    #[test]
    fn usage_of_a_shared_quota_is_the_sum_over_namespaces() {
        let items = json!([{ "hard": { "pods": "10" } }, { "hard": { "limits.cpu": "2" } }]);
        let quotas = [
            quota("0", json!({ "pods": "2" })),
            quota("0", json!({ "pods": "1", "services": "7" })),
            quota("1", json!({ "limits.cpu": "250m" })),
            quota("0", json!({ "pods": "many" })),
        ];
        let spec = json!({ "resourceQuotas": { "items": items } });
        let usage = series(spec.clone(), json!({}), &quotas, "capsule_tenant_resource_usage");
        assert_eq!(usage, ["oil,namespaces, 0", "oil,pods,0 3", "oil,limits.cpu,1 0.25"]);
        let limit = series(spec, json!({}), &quotas, "capsule_tenant_resource_limit");
        assert_eq!(limit, ["oil,pods,0 10", "oil,limits.cpu,1 2"]);
    }

    #[test]
    fn namespace_scoped_quota_has_no_series() {
        let spec =
            json!({ "resourceQuotas": { "scope": "Namespace", "items": [{ "hard": { "pods": "10" } }] } });
        let usage =
            series(spec, json!({}), &[quota("0", json!({ "pods": "2" }))], "capsule_tenant_resource_usage");
        assert_eq!(usage, ["oil,namespaces, 0"]);
    }
}
