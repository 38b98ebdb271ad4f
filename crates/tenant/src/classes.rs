//! The classes that a Tenant may use, for its status.

use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use operator_core::{
    ObjectKey, Wiring,
    informer::{Change, Informer, Selection, Store},
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
    /// Asks for the informer, and for a reconcile of the Tenants that limit their classes when there are others.
    pub(crate) fn wire(wiring: &mut Wiring<'_, Tenant>) -> Self {
        let storage = wiring.informer::<StorageClass>(Selection::All);
        let tenants = wiring.objects().clone();
        wiring.on_change(
            &storage,
            move |change| {
                if is_told_apart(change) { limited(tenants.store()) } else { Vec::new() }
            },
        );
        Self { storage }
    }

    /// Those that the Tenant may use, as far as it limits them.
    pub(crate) fn available(&self, tenant: &Tenant) -> Option<AvailableClasses> {
        let allowed = Classes::of(tenant).storage?;
        let all = self.storage.store().list();
        let storage = names(&allowed, all.iter().map(AsRef::as_ref));
        Some(AvailableClasses { storage, ..AvailableClasses::default() })
    }
}

/// Whether lists may allow it now and did not before, or the other way round.
fn is_told_apart(change: &Change<StorageClass>) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.labels() != new.labels(),
        _ => true,
    }
}

fn limited(tenants: &Store<Tenant>) -> Vec<ObjectKey> {
    let tenants = tenants.list();
    let limited = tenants.iter().filter(|tenant| tenant.spec.storage_classes.is_some());
    limited.map(|tenant| ObjectKey::of(tenant.as_ref())).collect()
}

fn names<'c>(allowed: &Allowed, classes: impl Iterator<Item = &'c StorageClass>) -> Vec<String> {
    let mut names: Vec<_> = classes.filter(|class| allowed.has(*class)).map(ResourceExt::name_any).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_that_are_there_and_allowed_are_named() {
        let class = |name: &str, tier: &str| -> StorageClass {
            serde_json::from_value(json!({
                "metadata": { "name": name, "labels": { "tier": tier } }, "provisioner": "example.com/none",
            }))
            .unwrap()
        };
        let classes =
            [class("slow", "gas"), class("fast", "gas"), class("usual", "oil"), class("gone", "gas")];
        let list =
            json!({ "allowed": ["slow", "absent"], "allowedRegex": "^fa", "matchLabels": { "tier": "oil" } });
        let allowed = Allowed::of(&serde_json::from_value(list).unwrap());
        assert_eq!(names(&allowed, classes.iter()), ["fast", "slow", "usual"]);
    }
}
