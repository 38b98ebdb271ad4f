//! The classes that a Tenant may use, for its status.

use std::sync::Arc;

use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    informer::{Change, Informer, Selection},
};

use crate::{
    allowed::{Allowed, Classes},
    api::v1beta2::{AvailableClasses, Tenant},
};

/// Knows the classes of the cluster.
pub(crate) struct ClusterClasses {
    storage: Informer<StorageClass>,
}

impl ClusterClasses {
    /// Asks for the informer, and for a reconcile of the Tenants whose status may name other classes after a change.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Tenant>) -> Self {
        let storage = builder.informer::<StorageClass>(Selection::All);
        let tenants = builder.objects().clone();
        builder.watches(&storage, move |change| concerned(change, &tenants.store().list()));
        Self { storage }
    }

    /// Returns the classes that exist and that the Tenant may use: all of them if it has no list.
    pub(crate) fn available(&self, tenant: &Tenant) -> AvailableClasses {
        let all = self.storage.store().list();
        let storage = names(Classes::of(tenant).storage.as_ref(), all.iter().map(AsRef::as_ref));
        AvailableClasses { storage, ..AvailableClasses::default() }
    }
}

/// Returns the Tenants whose status may name other classes: all if a class comes or goes, and if its labels change those
/// that choose by labels.
fn concerned(change: &Change<StorageClass>, tenants: &[Arc<Tenant>]) -> Vec<ObjectKey> {
    let chooses_by_labels = |tenant: &Tenant| {
        tenant.spec.storage_classes.as_ref().is_some_and(|list| {
            list.match_labels.as_ref().is_some_and(|labels| !labels.is_empty())
                || list.match_expressions.as_ref().is_some_and(|expressions| !expressions.is_empty())
        })
    };
    let is_concerned = |tenant: &&Arc<Tenant>| match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.labels() != new.labels() && chooses_by_labels(tenant),
        _ => true,
    };
    tenants.iter().filter(is_concerned).map(|tenant| ObjectKey::of(tenant.as_ref())).collect()
}

fn names<'c>(allowed: Option<&Allowed>, classes: impl Iterator<Item = &'c StorageClass>) -> Vec<String> {
    let may_use = |class: &&StorageClass| allowed.is_none_or(|allowed| allowed.has(*class));
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
    fn without_a_list_all_classes_are_named_and_with_an_empty_one_none() {
        let classes = [class("slow", "gas"), class("fast", "oil")];
        assert_eq!(names(None, classes.iter()), ["fast", "slow"]);
        for empty in [json!({}), json!({ "allowed": [], "allowedRegex": "", "default": "" })] {
            let allowed = Allowed::of(&serde_json::from_value(empty).unwrap());
            assert_eq!(names(Some(&allowed), classes.iter()), [""; 0]);
        }
    }

    #[test]
    fn a_class_concerns_all_when_it_comes_or_goes_and_who_chooses_by_labels_when_these_change() {
        let tenant = |name: &str, spec: Value| -> Arc<Tenant> {
            let tenant = json!({ "metadata": { "name": name }, "spec": spec });
            Arc::new(serde_json::from_value(tenant).unwrap())
        };
        let tenants = [
            tenant("all", json!({})),
            tenant("named", json!({ "storageClasses": { "allowed": ["fast"], "matchLabels": {} } })),
            tenant("chosen", json!({ "storageClasses": { "matchLabels": { "tier": "oil" } } })),
        ];
        let concerns = |old: Option<&StorageClass>, new: Option<&StorageClass>| {
            let arc = |class: Option<&StorageClass>| class.cloned().map(Arc::new);
            let change = Change { key: ObjectKey::cluster("fast"), old: arc(old), new: arc(new) };
            concerned(&change, &tenants).iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
        };
        let (gas, oil) = (class("fast", "gas"), class("fast", "oil"));
        assert_eq!(concerns(None, Some(&gas)), ["all", "named", "chosen"]);
        assert_eq!(concerns(Some(&gas), None), ["all", "named", "chosen"]);
        assert_eq!(concerns(Some(&gas), Some(&oil)), ["chosen"]);
        let mut other = gas.clone();
        other.provisioner = "example.com/other".to_owned();
        assert_eq!(concerns(Some(&gas), Some(&other)), [""; 0]);
    }

    #[test]
    fn classes_that_are_there_and_allowed_are_named() {
        let classes =
            [class("slow", "gas"), class("fast", "gas"), class("usual", "oil"), class("gone", "gas")];
        let list =
            json!({ "allowed": ["slow", "absent"], "allowedRegex": "^fa", "matchLabels": { "tier": "oil" } });
        let allowed = Allowed::of(&serde_json::from_value(list).unwrap());
        assert_eq!(names(Some(&allowed), classes.iter()), ["fast", "slow", "usual"]);
    }
}
