//! LimitRanges of a namespace.

use capsule::api::{names::LIMIT_RANGE_LABEL, v1beta2::LimitRanges};
use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem, LimitRangeSpec};

use super::{Child, apply_meta, keyed_meta};
use crate::{quantities::normalize, quota::Resources};

/// Returns the LimitRanges of a namespace.
pub fn limit_ranges(tenant: &str, namespace: &str, ranges: &LimitRanges) -> Vec<LimitRange> {
    let object = |(index, spec): (usize, &LimitRangeSpec)| LimitRange {
        metadata: keyed_meta(tenant, namespace, "limit-range", LIMIT_RANGE_LABEL, index),
        spec: Some(spec.clone()),
    };
    ranges.items.iter().enumerate().map(object).collect()
}

impl Child for LimitRange {
    fn apply_to(&self, found: &mut Self) {
        apply_meta(&self.metadata, &mut found.metadata);
        if self.spec.as_ref().map(with_defaults) != found.spec.as_ref().map(with_defaults) {
            found.spec.clone_from(&self.spec);
        }
    }
}

fn with_defaults(spec: &LimitRangeSpec) -> LimitRangeSpec {
    LimitRangeSpec { limits: spec.limits.iter().map(item_with_defaults).collect() }
}

/// Adds the defaults of the API server for containers (`SetDefaults_LimitRangeItem`): `max` is the
/// default limit. The default limit, or else `min`, is the default request.
fn item_with_defaults(item: &LimitRangeItem) -> LimitRangeItem {
    let normalize =
        |resources: &Option<Resources>| normalize(resources.as_ref().unwrap_or(&Resources::new()));
    let (min, max) = (normalize(&item.min), normalize(&item.max));
    let (mut default, mut default_request) = (normalize(&item.default), normalize(&item.default_request));
    if item.type_ == "Container" {
        add_missing(&mut default, &max);
        add_missing(&mut default_request, &default);
        add_missing(&mut default_request, &min);
    }
    let non_empty = |resources: Resources| (!resources.is_empty()).then_some(resources);
    LimitRangeItem {
        default: non_empty(default),
        default_request: non_empty(default_request),
        max: non_empty(max),
        max_limit_request_ratio: non_empty(normalize(&item.max_limit_request_ratio)),
        min: non_empty(min),
        type_: item.type_.clone(),
    }
}

fn add_missing(resources: &mut Resources, from: &Resources) {
    for (name, quantity) in from {
        resources.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(limits: &Value) -> LimitRangeSpec {
        serde_json::from_value(json!({ "limits": limits })).unwrap()
    }

    fn desired(limits: &Value) -> LimitRange {
        let ranges = LimitRanges { items: vec![spec(limits)] };
        limit_ranges("oil", "oil-dev", &ranges).pop().unwrap()
    }

    #[test]
    fn limit_range_has_name_and_labels_of_capsule() {
        let desired = desired(&json!([{ "type": "Pod", "max": { "cpu": "1" } }]));
        let meta = desired.metadata;
        assert_eq!(meta.name.as_deref(), Some("capsule-oil-0"));
        assert_eq!(meta.namespace.as_deref(), Some("oil-dev"));
        let labels = meta.labels.unwrap();
        assert_eq!(labels["capsule.clastix.io/limit-range"], "0");
        assert_eq!(labels["projectcapsule.dev/tenant"], "oil");
        assert_eq!(labels["projectcapsule.dev/managed-by"], "controller");
        assert_eq!(labels["app.kubernetes.io/managed-by"], "ensemble");
    }

    #[test]
    fn defaults_of_the_api_server_are_no_difference() {
        let desired = desired(
            &json!([{ "type": "Container", "min": { "cpu": "50m" }, "max": { "cpu": 1, "memory": "1024Mi" } }]),
        );
        let mut found = desired.clone();
        found.spec = Some(spec(&json!([{
            "type": "Container",
            "min": { "cpu": "50m" },
            "max": { "cpu": "1", "memory": "1Gi" },
            "default": { "cpu": "1", "memory": "1Gi" },
            "defaultRequest": { "cpu": "1", "memory": "1Gi" },
        }])));
        let before = found.clone();
        desired.apply_to(&mut found);
        assert_eq!(found, before);
    }

    #[test]
    fn only_containers_have_defaults() {
        let pod = spec(&json!([{ "type": "Pod", "max": { "cpu": "1" } }]));
        assert_eq!(with_defaults(&pod), pod);
    }

    #[test]
    fn changed_limit_is_repaired_and_foreign_labels_stay() {
        let desired = desired(&json!([{ "type": "Pod", "max": { "cpu": "1" } }]));
        let mut found = desired.clone();
        found.spec = Some(spec(&json!([{ "type": "Pod", "max": { "cpu": "2" } }])));
        let labels = found.metadata.labels.as_mut().unwrap();
        labels.insert("foreign".into(), "stays".into());
        labels.remove("projectcapsule.dev/tenant");
        desired.apply_to(&mut found);
        assert_eq!(found.spec, desired.spec);
        let labels = found.metadata.labels.unwrap();
        assert_eq!(
            (labels["foreign"].as_str(), labels["projectcapsule.dev/tenant"].as_str()),
            ("stays", "oil")
        );
    }
}
