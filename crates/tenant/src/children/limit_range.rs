//! LimitRanges.

use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem, LimitRangeSpec};

use super::{Child, indexed, settle_meta};
use crate::{
    api::{names::LIMIT_RANGE_LABEL, v1beta2::LimitRanges},
    quantities::comparable,
    quota::Resources,
};

/// The LimitRanges of a namespace.
pub fn limit_ranges(tenant: &str, namespace: &str, ranges: &LimitRanges) -> Vec<LimitRange> {
    let object = |(index, spec): (usize, &LimitRangeSpec)| LimitRange {
        metadata: indexed(tenant, namespace, "limit-range", LIMIT_RANGE_LABEL, index),
        spec: Some(spec.clone()),
    };
    ranges.items.iter().enumerate().map(object).collect()
}

impl Child for LimitRange {
    const KEY: &'static str = LIMIT_RANGE_LABEL;

    fn settle(&self, found: &mut Self) {
        settle_meta(&self.metadata, &mut found.metadata);
        if self.spec.as_ref().map(served) != found.spec.as_ref().map(served) {
            found.spec.clone_from(&self.spec);
        }
    }
}

fn served(spec: &LimitRangeSpec) -> LimitRangeSpec {
    LimitRangeSpec { limits: spec.limits.iter().map(served_item).collect() }
}

/// The defaults of containers, as `SetDefaults_LimitRangeItem` of the API server fills them in: the largest
/// amount is the default limit, the default limit the default request, and else the smallest amount is.
fn served_item(item: &LimitRangeItem) -> LimitRangeItem {
    let comparable =
        |resources: &Option<Resources>| comparable(resources.as_ref().unwrap_or(&Resources::new()));
    let (min, max) = (comparable(&item.min), comparable(&item.max));
    let (mut default, mut default_request) = (comparable(&item.default), comparable(&item.default_request));
    if item.type_ == "Container" {
        fill(&mut default, &max);
        fill(&mut default_request, &default);
        fill(&mut default_request, &min);
    }
    let given = |resources: Resources| (!resources.is_empty()).then_some(resources);
    LimitRangeItem {
        default: given(default),
        default_request: given(default_request),
        max: given(max),
        max_limit_request_ratio: given(comparable(&item.max_limit_request_ratio)),
        min: given(min),
        type_: item.type_.clone(),
    }
}

fn fill(resources: &mut Resources, from: &Resources) {
    for (name, amount) in from {
        resources.entry(name.clone()).or_insert_with(|| amount.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(limits: &Value) -> LimitRangeSpec {
        serde_json::from_value(json!({ "limits": limits })).unwrap()
    }

    fn wanted(limits: &Value) -> LimitRange {
        let ranges = LimitRanges { items: vec![spec(limits)] };
        limit_ranges("oil", "oil-dev", &ranges).pop().unwrap()
    }

    #[test]
    fn it_has_the_name_and_the_labels_of_the_contract() {
        let made = wanted(&json!([{ "type": "Pod", "max": { "cpu": "1" } }]));
        let meta = made.metadata;
        assert_eq!(meta.name.as_deref(), Some("capsule-oil-0"));
        assert_eq!(meta.namespace.as_deref(), Some("oil-dev"));
        let labels = meta.labels.unwrap();
        assert_eq!(labels["capsule.clastix.io/limit-range"], "0");
        assert_eq!(labels["projectcapsule.dev/tenant"], "oil");
        assert_eq!(labels["projectcapsule.dev/managed-by"], "controller");
        assert_eq!(labels["app.kubernetes.io/managed-by"], "ensemble");
    }

    #[test]
    fn what_the_api_server_fills_in_is_no_difference() {
        let wanted = wanted(
            &json!([{ "type": "Container", "min": { "cpu": "50m" }, "max": { "cpu": 1, "memory": "1024Mi" } }]),
        );
        let mut found = wanted.clone();
        found.spec = Some(spec(&json!([{
            "type": "Container",
            "min": { "cpu": "50m" },
            "max": { "cpu": "1", "memory": "1Gi" },
            "default": { "cpu": "1", "memory": "1Gi" },
            "defaultRequest": { "cpu": "1", "memory": "1Gi" },
        }])));
        let before = found.clone();
        wanted.settle(&mut found);
        assert_eq!(found, before);
    }

    #[test]
    fn only_containers_have_defaults() {
        let pod = spec(&json!([{ "type": "Pod", "max": { "cpu": "1" } }]));
        assert_eq!(served(&pod), pod);
    }

    #[test]
    fn another_limit_is_repaired_and_the_labels_of_others_stay() {
        let wanted = wanted(&json!([{ "type": "Pod", "max": { "cpu": "1" } }]));
        let mut found = wanted.clone();
        found.spec = Some(spec(&json!([{ "type": "Pod", "max": { "cpu": "2" } }])));
        let labels = found.metadata.labels.as_mut().unwrap();
        labels.insert("theirs".into(), "stays".into());
        labels.remove("projectcapsule.dev/tenant");
        wanted.settle(&mut found);
        assert_eq!(found.spec, wanted.spec);
        let labels = found.metadata.labels.unwrap();
        assert_eq!(
            (labels["theirs"].as_str(), labels["projectcapsule.dev/tenant"].as_str()),
            ("stays", "oil")
        );
    }
}
