//! ResourceQuotas.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec};

use super::{Child, indexed, settle_meta};
use crate::{
    api::names::{QUOTA_HARD_ANNOTATION, QUOTA_USED_ANNOTATION, RESOURCE_QUOTA_LABEL},
    quantities::comparable,
    quota::{Division, Resources},
};

/// The ResourceQuota of a namespace for an item that limits each namespace alone.
pub fn namespace_quota(
    tenant: &str,
    namespace: &str,
    index: usize,
    item: &ResourceQuotaSpec,
) -> ResourceQuota {
    ResourceQuota {
        metadata: indexed(tenant, namespace, "resource-quota", RESOURCE_QUOTA_LABEL, index),
        spec: Some(item.clone()),
        status: None,
    }
}

/// The ResourceQuotas, one for each namespace, for an item that limits the Tenant as a whole.
pub fn tenant_quota(
    tenant: &str,
    index: usize,
    item: &ResourceQuotaSpec,
    division: &Division,
) -> Vec<ResourceQuota> {
    let object = |(namespace, grant): (&String, &Resources)| {
        let item = ResourceQuotaSpec { hard: Some(grant.clone()), ..item.clone() };
        let mut quota = namespace_quota(tenant, namespace, index, &item);
        quota.metadata.annotations = Some(division.annotations.clone());
        quota
    };
    division.grants.iter().map(object).collect()
}

impl Child for ResourceQuota {
    const KEY: &'static str = RESOURCE_QUOTA_LABEL;

    fn settle(&self, found: &mut Self) {
        if let Some(annotations) = &mut found.metadata.annotations {
            let wanted = self.metadata.annotations.as_ref();
            annotations
                .retain(|key, _| !of_quota(key) || wanted.is_some_and(|wanted| wanted.contains_key(key)));
        }
        settle_meta(&self.metadata, &mut found.metadata);
        if self.spec.as_ref().map(served) != found.spec.as_ref().map(served) {
            found.spec.clone_from(&self.spec);
        }
    }

    /// The scopes of a ResourceQuota cannot be changed (`ValidateResourceQuotaUpdate`).
    fn must_replace(&self, found: &Self) -> bool {
        scopes(self) != scopes(found)
    }
}

/// Whether the annotation says something of a resource, which the quota may no longer limit.
fn of_quota(key: &str) -> bool {
    key.starts_with(QUOTA_HARD_ANNOTATION) || key.starts_with(QUOTA_USED_ANNOTATION)
}

fn scopes(quota: &ResourceQuota) -> BTreeSet<&String> {
    quota.spec.iter().flat_map(|spec| spec.scopes.iter().flatten()).collect()
}

fn served(spec: &ResourceQuotaSpec) -> ResourceQuotaSpec {
    let mut spec = spec.clone();
    spec.hard = spec.hard.map(|hard| comparable(&hard)).filter(|hard| !hard.is_empty());
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
        namespace_quota("oil", "oil-dev", 1, &item(value))
    }

    #[test]
    fn right_after_creation_it_equals_its_item() {
        let item = item(
            json!({ "hard": { "limits.cpu": 8, "limits.memory": "16Gi" }, "scopes": ["NotTerminating"] }),
        );
        let used = BTreeMap::from([("oil-dev".to_owned(), Resources::new())]);
        let division = divide(item.hard.as_ref().unwrap(), &used).unwrap();
        let made = tenant_quota("oil", 0, &item, &division).pop().unwrap();
        assert_eq!(made.metadata.name.as_deref(), Some("capsule-oil-0"));
        assert_eq!(made.metadata.labels.as_ref().unwrap()["capsule.clastix.io/resource-quota"], "0");
        assert_eq!(made.spec.unwrap(), item);
        assert_eq!(made.metadata.annotations.unwrap()["quota.capsule.clastix.io/hard-limits.memory"], "16Gi");
    }

    #[test]
    fn another_spelling_of_the_same_amounts_is_no_difference() {
        let wanted = quota(json!({ "hard": { "cpu": "1000m", "memory": "1024Mi" }, "scopes": [] }));
        let mut found = quota(json!({ "hard": { "cpu": "1", "memory": "1Gi" } }));
        let before = found.clone();
        wanted.settle(&mut found);
        assert_eq!(found, before);
    }

    #[test]
    fn other_amounts_and_old_annotations_are_repaired() {
        let wanted = quota(json!({ "hard": { "cpu": "2" } }));
        let mut found = quota(json!({ "hard": { "cpu": "1", "pods": "3" } }));
        found.metadata.annotations = Some(BTreeMap::from([
            ("quota.capsule.clastix.io/used-pods".to_owned(), "3".to_owned()),
            ("theirs".to_owned(), "stays".to_owned()),
        ]));
        wanted.settle(&mut found);
        assert_eq!(found.spec, wanted.spec);
        assert_eq!(found.metadata.annotations.unwrap().into_keys().collect::<Vec<_>>(), ["theirs"]);
    }

    #[test]
    fn other_scopes_need_a_new_object() {
        let terminating = quota(json!({ "scopes": ["Terminating", "BestEffort"] }));
        let reordered = quota(json!({ "scopes": ["BestEffort", "Terminating"] }));
        assert!(!terminating.must_replace(&reordered));
        assert!(terminating.must_replace(&quota(json!({}))));
    }
}
