//! ResourceQuotas of a namespace.

use std::collections::BTreeSet;

use capsule::api::names::{QUOTA_HARD_ANNOTATION, QUOTA_USED_ANNOTATION, RESOURCE_QUOTA_LABEL};
use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec};

use super::{Child, apply_meta, keyed_meta};
use crate::{
    quantities::normalize,
    quota::{Division, Resources},
};

/// Returns the ResourceQuota of a namespace for an item that limits each namespace separately.
pub fn namespace_quota(tenant: &str, namespace: &str, key: &str, item: &ResourceQuotaSpec) -> ResourceQuota {
    ResourceQuota {
        metadata: keyed_meta(tenant, namespace, "resource-quota", RESOURCE_QUOTA_LABEL, key),
        spec: Some(item.clone()),
        status: None,
    }
}

/// Returns one ResourceQuota for each namespace, for an item that limits the Tenant as a whole.
pub fn tenant_quota(
    tenant: &str,
    key: &str,
    item: &ResourceQuotaSpec,
    division: &Division,
) -> Vec<ResourceQuota> {
    let object = |(namespace, hard): (&String, &Resources)| {
        let item = ResourceQuotaSpec { hard: Some(hard.clone()), ..item.clone() };
        let mut quota = namespace_quota(tenant, namespace, key, &item);
        quota.metadata.annotations = Some(division.annotations.clone());
        quota
    };
    division.limits.iter().map(object).collect()
}

impl Child for ResourceQuota {
    fn apply_to(&self, found: &mut Self) {
        if let Some(annotations) = &mut found.metadata.annotations {
            let desired = self.metadata.annotations.as_ref();
            annotations.retain(|key, _| {
                !is_quota_annotation(key) || desired.is_some_and(|desired| desired.contains_key(key))
            });
        }
        apply_meta(&self.metadata, &mut found.metadata);
        if self.spec.as_ref().map(with_defaults) != found.spec.as_ref().map(with_defaults) {
            found.spec.clone_from(&self.spec);
        }
    }

    /// The scopes of a ResourceQuota are immutable (`ValidateResourceQuotaUpdate`).
    fn must_recreate(&self, found: &Self) -> bool {
        scopes(self) != scopes(found)
    }
}

/// Returns whether the annotation belongs to a resource. The quota may no longer limit that
/// resource.
fn is_quota_annotation(key: &str) -> bool {
    key.starts_with(QUOTA_HARD_ANNOTATION) || key.starts_with(QUOTA_USED_ANNOTATION)
}

fn scopes(quota: &ResourceQuota) -> BTreeSet<&String> {
    quota.spec.iter().flat_map(|spec| spec.scopes.iter().flatten()).collect()
}

fn with_defaults(spec: &ResourceQuotaSpec) -> ResourceQuotaSpec {
    let mut spec = spec.clone();
    spec.hard = spec.hard.map(|hard| normalize(&hard)).filter(|hard| !hard.is_empty());
    spec.scopes.take_if(|scopes| scopes.is_empty());
    let requirements =
        spec.scope_selector.iter_mut().flat_map(|selector| &mut selector.match_expressions).flatten();
    for requirement in requirements {
        requirement.values.take_if(|values| values.is_empty());
    }
    spec
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::quota::divide;

    fn item(value: Value) -> ResourceQuotaSpec {
        serde_json::from_value(value).unwrap()
    }

    fn quota(value: Value) -> ResourceQuota {
        namespace_quota("oil", "oil-dev", "1", &item(value))
    }

    #[test]
    fn new_quota_equals_its_item() {
        let item = item(
            json!({ "hard": { "limits.cpu": 8, "limits.memory": "16Gi" }, "scopes": ["NotTerminating"] }),
        );
        let used = BTreeMap::from([("oil-dev".to_owned(), Resources::new())]);
        let division = divide(item.hard.as_ref().unwrap(), &used).unwrap();
        let created = tenant_quota("oil", "0", &item, &division).pop().unwrap();
        assert_eq!(created.metadata.name.as_deref(), Some("capsule-oil-0"));
        assert_eq!(created.metadata.labels.as_ref().unwrap()["capsule.clastix.io/resource-quota"], "0");
        assert_eq!(created.spec.unwrap(), item);
        assert_eq!(
            created.metadata.annotations.unwrap()["quota.capsule.clastix.io/hard-limits.memory"],
            "16Gi"
        );
    }

    #[test]
    fn other_format_of_equal_quantities_is_no_difference() {
        let desired = quota(json!({ "hard": { "cpu": "1000m", "memory": "1024Mi" }, "scopes": [] }));
        let mut found = quota(json!({ "hard": { "cpu": "1", "memory": "1Gi" } }));
        let before = found.clone();
        desired.apply_to(&mut found);
        assert_eq!(found, before);
    }

    #[test]
    fn changed_quantities_and_obsolete_annotations_are_repaired() {
        let desired = quota(json!({ "hard": { "cpu": "2" } }));
        let mut found = quota(json!({ "hard": { "cpu": "1", "pods": "3" } }));
        found.metadata.annotations = Some(BTreeMap::from([
            ("quota.capsule.clastix.io/used-pods".to_owned(), "3".to_owned()),
            ("foreign".to_owned(), "stays".to_owned()),
        ]));
        desired.apply_to(&mut found);
        assert_eq!(found.spec, desired.spec);
        assert_eq!(found.metadata.annotations.unwrap().into_keys().collect::<Vec<_>>(), ["foreign"]);
    }

    #[test]
    fn quota_with_other_scopes_must_be_recreated() {
        let terminating = quota(json!({ "scopes": ["Terminating", "BestEffort"] }));
        let reordered = quota(json!({ "scopes": ["BestEffort", "Terminating"] }));
        assert!(!terminating.must_recreate(&reordered));
        assert!(terminating.must_recreate(&quota(json!({}))));
    }
}
