//! Classes that a Tenant may use, for its status.

use std::sync::Arc;

use capsule::{
    api::v1beta2::{AvailableClasses, Tenant},
    class_filter::{ClassFilter, ClassFilters},
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    informer::{Change, Informer, Selection},
};

/// Classes of the cluster.
pub(crate) struct ClusterClasses {
    storage: Informer<StorageClass>,
}

impl ClusterClasses {
    /// Registers the informer. A change of a class requeues the Tenants whose status may list other
    /// classes.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Tenant>) -> Self {
        let storage = builder.informer::<StorageClass>(Selection::All);
        let tenants = builder.objects().clone();
        builder.watches(&storage, move |change| affected_tenants(change, &tenants.store().list()));
        Self { storage }
    }

    /// Returns the classes that exist and are allowed: all classes if the Tenant has no list.
    pub(crate) fn available(&self, tenant: &Tenant) -> AvailableClasses {
        let all = self.storage.store().list();
        let storage = names(ClassFilters::of(tenant).storage.as_ref(), all.iter().map(AsRef::as_ref));
        AvailableClasses { storage, ..AvailableClasses::default() }
    }
}

/// Returns the Tenants whose status may list other classes: all after a create or delete, and after
/// a change of labels those that select classes by labels.
fn affected_tenants(change: &Change<StorageClass>, tenants: &[Arc<Tenant>]) -> Vec<ObjectKey> {
    let selects_by_labels = |tenant: &Tenant| {
        tenant.spec.storage_classes.as_ref().is_some_and(|list| {
            list.match_labels.as_ref().is_some_and(|labels| !labels.is_empty())
                || list.match_expressions.as_ref().is_some_and(|expressions| !expressions.is_empty())
        })
    };
    let is_affected = |tenant: &&Arc<Tenant>| match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.labels() != new.labels() && selects_by_labels(tenant),
        _ => true,
    };
    tenants.iter().filter(is_affected).map(|tenant| ObjectKey::of(tenant.as_ref())).collect()
}

fn names<'c>(filter: Option<&ClassFilter>, classes: impl Iterator<Item = &'c StorageClass>) -> Vec<String> {
    let may_use = |class: &&StorageClass| filter.is_none_or(|filter| filter.allows(*class));
    let mut names: Vec<_> = classes.filter(may_use).map(ResourceExt::name_any).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(name: &str, tier: &str) -> StorageClass {
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "tier": tier } }, "provisioner": "example.com/none",
        }))
        .unwrap()
    }

    #[test]
    fn missing_list_allows_all_classes_and_empty_list_allows_none() {
        let classes = [class("slow", "gas"), class("fast", "oil")];
        assert_eq!(names(None, classes.iter()), ["fast", "slow"]);
        for empty in [json!({}), json!({ "allowed": [], "allowedRegex": "", "default": "" })] {
            let filter = ClassFilter::new(&serde_json::from_value(empty).unwrap());
            assert_eq!(names(Some(&filter), classes.iter()), [""; 0]);
        }
    }

    #[test]
    fn create_and_delete_affect_all_tenants_and_label_changes_those_with_a_selector() {
        let tenant = |name: &str, spec: Value| -> Arc<Tenant> {
            let tenant = json!({ "metadata": { "name": name }, "spec": spec });
            Arc::new(serde_json::from_value(tenant).unwrap())
        };
        let tenants = [
            tenant("all", json!({})),
            tenant("named", json!({ "storageClasses": { "allowed": ["fast"], "matchLabels": {} } })),
            tenant("selected", json!({ "storageClasses": { "matchLabels": { "tier": "oil" } } })),
        ];
        let affected = |old: Option<&StorageClass>, new: Option<&StorageClass>| {
            let arc = |class: Option<&StorageClass>| class.cloned().map(Arc::new);
            let change = Change { key: ObjectKey::cluster("fast"), old: arc(old), new: arc(new) };
            affected_tenants(&change, &tenants).iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
        };
        let (gas, oil) = (class("fast", "gas"), class("fast", "oil"));
        assert_eq!(affected(None, Some(&gas)), ["all", "named", "selected"]);
        assert_eq!(affected(Some(&gas), None), ["all", "named", "selected"]);
        assert_eq!(affected(Some(&gas), Some(&oil)), ["selected"]);
        let mut other = gas.clone();
        other.provisioner = "example.com/other".to_owned();
        assert_eq!(affected(Some(&gas), Some(&other)), [""; 0]);
    }

    #[test]
    fn lists_existing_classes_that_are_allowed() {
        let classes =
            [class("slow", "gas"), class("fast", "gas"), class("usual", "oil"), class("other", "gas")];
        let list =
            json!({ "allowed": ["slow", "absent"], "allowedRegex": "^fa", "matchLabels": { "tier": "oil" } });
        let filter = ClassFilter::new(&serde_json::from_value(list).unwrap());
        assert_eq!(names(Some(&filter), classes.iter()), ["fast", "slow", "usual"]);
    }
}
