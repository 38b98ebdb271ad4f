//! Metrics of replications. Pure. Names and labels are those of Capsule.

use capsule::{
    api::v1beta2::{GlobalTenantResource, TenantResource},
    condition_series::condition_series,
};
use kube::ResourceExt;
use operator_core::metrics::{Gauge, GaugeSamples};

use crate::resource::Replication;

const NAME: (&str, &str) = ("name", "name of the object");
const NAMESPACE: (&str, &str) = ("target_namespace", "namespace of the TenantResource");
const CONDITION: (&str, &str) = ("condition", "type of the condition");

static LOCAL: Gauge = Gauge {
    name: "capsule_resource_condition",
    help: "Whether a condition of a TenantResource is true",
    labels: &[NAME, NAMESPACE, CONDITION],
};
static GLOBAL: Gauge = Gauge {
    name: "capsule_global_resource_condition",
    help: "Whether a condition of a GlobalTenantResource is true",
    labels: &[NAME, CONDITION],
};

/// A kind with a gauge.
pub(crate) trait Measured: Replication {
    /// Gauges of the controller.
    const GAUGES: &'static [&'static Gauge];
}

impl Measured for TenantResource {
    const GAUGES: &'static [&'static Gauge] = &[&LOCAL];
}

impl Measured for GlobalTenantResource {
    const GAUGES: &'static [&'static Gauge] = &[&GLOBAL];
}

/// Returns 1 for each condition that is true, and 0 for each other condition.
pub(crate) fn readings<K: Measured>(objects: impl IntoIterator<Item = impl AsRef<K>>) -> Vec<GaugeSamples> {
    let mut series = Vec::new();
    for object in objects {
        let object = object.as_ref();
        let (name, namespace) = (object.name_any(), object.namespace());
        let labels: Vec<_> = [name.as_str()].into_iter().chain(namespace.as_deref()).collect();
        series.extend(condition_series(&labels, &object.common_status().conditions));
    }
    K::GAUGES.iter().map(|gauge| GaugeSamples { gauge, series: series.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn series<K: Measured>(metadata: serde_json::Value) -> Vec<(Vec<String>, f64)> {
        let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let object: K = serde_json::from_value(json!({
            "metadata": metadata, "spec": { "resources": [] },
            "status": { "size": 0, "conditions": [condition("Ready", "True"), condition("Cordoned", "False")] },
        }))
        .unwrap();
        let samples = readings([Arc::new(object)]);
        assert!(samples[0].series.iter().all(|(labels, _)| labels.len() == samples[0].gauge.labels.len()));
        samples[0].series.clone()
    }

    #[test]
    fn series_have_the_labels_of_capsule() {
        let labels = |series: Vec<(Vec<String>, f64)>| {
            series
                .into_iter()
                .map(|(labels, value)| format!("{} {value}", labels.join(",")))
                .collect::<Vec<_>>()
        };
        let local = labels(series::<TenantResource>(json!({ "name": "a", "namespace": "b" })));
        assert_eq!(local, ["a,b,Ready 1", "a,b,Cordoned 0"]);
        assert_eq!(
            labels(series::<GlobalTenantResource>(json!({ "name": "a" }))),
            ["a,Ready 1", "a,Cordoned 0"]
        );
    }
}
