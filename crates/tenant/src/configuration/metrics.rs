//! Conditions of configurations and TenantOwners as metrics. Pure. Names and labels are those of
//! Capsule.

use std::sync::Arc;

use capsule::{
    api::v1beta2::{CapsuleConfiguration, TenantOwner},
    condition_series::condition_series,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};
use operator_core::metrics::{Gauge, GaugeSamples};

const NAME: (&str, &str) = ("name", "name of the object");
const CONDITION: (&str, &str) = ("condition", "type of the condition");

static CONFIGURATION: Gauge = Gauge {
    name: "capsule_config_condition",
    help: "Whether a condition of a CapsuleConfiguration is true",
    labels: &[NAME, CONDITION],
};
static OWNER: Gauge = Gauge {
    name: "capsule_tenantowner_condition",
    help: "Whether a condition of a TenantOwner is true",
    labels: &[NAME, CONDITION],
};

/// Gauges of this controller.
pub(super) static GAUGES: &[&Gauge] = &[&CONFIGURATION, &OWNER];

/// Returns the readings of the gauges.
pub(super) fn readings(
    configurations: &[Arc<CapsuleConfiguration>],
    owners: &[Arc<TenantOwner>],
) -> Vec<GaugeSamples> {
    let of_configuration = |one: &CapsuleConfiguration| one.status.clone().unwrap_or_default().conditions;
    let of_owner = |one: &TenantOwner| one.status.clone().unwrap_or_default().conditions;
    vec![samples(&CONFIGURATION, configurations, of_configuration), samples(&OWNER, owners, of_owner)]
}

fn samples<K: Resource>(
    gauge: &'static Gauge,
    objects: &[Arc<K>],
    conditions: impl Fn(&K) -> Vec<Condition>,
) -> GaugeSamples {
    let of_object =
        |object: &Arc<K>| condition_series(&[&object.name_any()], &conditions(object)).collect::<Vec<_>>();
    GaugeSamples { gauge, series: objects.iter().flat_map(of_object).collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_condition_has_a_series() {
        let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let configuration = serde_json::from_value(json!({
            "metadata": { "name": "default" }, "spec": {},
            "status": { "conditions": [condition("Ready", "True"), condition("FieldsEnforced", "False")] },
        }))
        .unwrap();
        let owner = serde_json::from_value(json!({
            "metadata": { "name": "anna" }, "spec": { "kind": "User", "name": "anna" },
            "status": { "conditions": [condition("Ready", "False")] },
        }))
        .unwrap();
        let [configurations, owners] =
            readings(&[Arc::new(configuration)], &[Arc::new(owner)]).try_into().unwrap();
        let series = |samples: &GaugeSamples| {
            let series = samples.series.iter();
            series.map(|(labels, value)| format!("{} {value}", labels.join(","))).collect::<Vec<_>>()
        };
        assert_eq!(series(&configurations), ["default,Ready 1", "default,FieldsEnforced 0"]);
        assert_eq!(series(&owners), ["anna,Ready 0"]);
    }
}
