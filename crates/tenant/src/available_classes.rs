//! Classes that a Tenant may use, for its status.

use std::sync::Arc;

use capsule::{
    api::v1beta2::{AvailableClasses, DefaultAllowedList, SelectorAllowedList, Tenant, TenantSpec},
    class_filter::{ClassFilter, ClassFilters},
};
use k8s_openapi::api::{
    node::v1::RuntimeClass, resource::v1::DeviceClass, scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};
use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    informer::{Change, Informer, Selection},
    kind::Kind,
};

use crate::policies::gateways::GatewayClass;

/// Classes of the cluster.
pub(crate) struct ClusterClasses {
    storage: Informer<StorageClass>,
    priority: Informer<PriorityClass>,
    runtime: Informer<RuntimeClass>,
    gateway: Informer<GatewayClass>,
    device: Informer<DeviceClass>,
}

impl ClusterClasses {
    /// Registers the informers. A change of a class requeues the Tenants whose status may list
    /// other classes.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Tenant>) -> Self {
        Self {
            storage: watch(builder, Selection::All, |spec| selects(spec.storage_classes.as_ref())),
            priority: watch(builder, Selection::All, |spec| selects(spec.priority_classes.as_ref())),
            runtime: watch(builder, Selection::All, |spec| selects(spec.runtime_classes.as_ref())),
            gateway: watch(builder, Selection::IfServed, |spec| {
                selects(spec.gateway_options.as_ref().and_then(|options| options.allowed_classes.as_ref()))
            }),
            device: watch(builder, Selection::IfServed, |spec| {
                spec.device_classes.as_ref().is_some_and(SelectorAllowedList::has_selector)
            }),
        }
    }

    /// Returns the classes that exist and are allowed: all classes of a kind without a filter.
    pub(crate) fn available(&self, filters: &ClassFilters) -> AvailableClasses {
        AvailableClasses {
            storage: names(filters.storage.as_ref(), &self.storage.store().list()),
            priority: names(filters.priority.as_ref(), &self.priority.store().list()),
            runtime: names(filters.runtime.as_ref(), &self.runtime.store().list()),
            gateway: names(filters.gateway.as_ref(), &self.gateway.store().list()),
            device: names(filters.device.as_ref(), &self.device.store().list()),
        }
    }

    /// Returns warnings about default classes that do not exist. Objects without class are then
    /// denied.
    pub(crate) fn missing_defaults(&self, filters: &ClassFilters) -> Vec<String> {
        let (priority, gateway) = (filters.priority.as_ref(), filters.gateway.as_ref());
        [
            missing_default(&self.priority, priority, "spec.priorityClasses.default", "Pods"),
            missing_default(&self.gateway, gateway, "spec.gatewayOptions.allowedClasses.default", "Gateways"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn missing_default<C: Kind>(
    classes: &Informer<C>,
    filter: Option<&ClassFilter>,
    path: &str,
    objects: &str,
) -> Option<String> {
    let default = filter?.default_class()?;
    let exists = classes.store().get(&ObjectKey::cluster(default)).is_some();
    let kind = C::kind(&());
    (!exists).then(|| {
        format!("{path}: {kind} {default:?} does not exist, so {objects} without a class are denied")
    })
}

/// Whether a Tenant selects classes of one kind by their labels.
type SelectsByLabels = fn(&TenantSpec) -> bool;

fn selects(list: Option<&DefaultAllowedList>) -> bool {
    list.is_some_and(DefaultAllowedList::has_selector)
}

fn watch<C: Kind>(
    builder: &mut ControllerBuilder<'_, Tenant>,
    selection: Selection,
    selects_by_labels: SelectsByLabels,
) -> Informer<C> {
    let classes = builder.informer::<C>(selection);
    let tenants = builder.objects().clone();
    builder.watches(&classes, move |change| {
        affected_tenants(change, &tenants.store().list(), selects_by_labels)
    });
    classes
}

/// Returns the Tenants whose status may list other classes: all after a create or delete, and after
/// a change of labels those that select classes by labels.
fn affected_tenants<C: Kind>(
    change: &Change<C>,
    tenants: &[Arc<Tenant>],
    selects_by_labels: SelectsByLabels,
) -> Vec<ObjectKey> {
    let is_affected = |tenant: &&Arc<Tenant>| match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.labels() != new.labels() && selects_by_labels(&tenant.spec),
        _ => true,
    };
    tenants.iter().filter(is_affected).map(|tenant| ObjectKey::of(tenant.as_ref())).collect()
}

fn names<C: Kind>(filter: Option<&ClassFilter>, classes: &[Arc<C>]) -> Vec<String> {
    let may_use = |class: &&Arc<C>| filter.is_none_or(|filter| filter.allows(class.as_ref()));
    let mut names: Vec<_> = classes.iter().filter(may_use).map(|class| class.name_any()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(name: &str, tier: &str) -> Arc<StorageClass> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": { "name": name, "labels": { "tier": tier } }, "provisioner": "example.com/none",
            }))
            .unwrap(),
        )
    }

    #[test]
    fn missing_list_allows_all_classes_and_empty_list_allows_none() {
        let classes = [class("slow", "gas"), class("fast", "oil")];
        assert_eq!(names(None, &classes), ["fast", "slow"]);
        for empty in [json!({}), json!({ "allowed": [], "allowedRegex": "", "default": "" })] {
            let filter = ClassFilter::new(&serde_json::from_value(empty).unwrap());
            assert_eq!(names(Some(&filter), &classes), [""; 0]);
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
        let affected = |old: Option<&Arc<StorageClass>>, new: Option<&Arc<StorageClass>>| {
            let change = Change { key: ObjectKey::cluster("fast"), old: old.cloned(), new: new.cloned() };
            affected_tenants(&change, &tenants, |spec| selects(spec.storage_classes.as_ref()))
                .iter()
                .map(|key| key.name().to_owned())
                .collect::<Vec<_>>()
        };
        let (gas, oil) = (class("fast", "gas"), class("fast", "oil"));
        assert_eq!(affected(None, Some(&gas)), ["all", "named", "selected"]);
        assert_eq!(affected(Some(&gas), None), ["all", "named", "selected"]);
        assert_eq!(affected(Some(&gas), Some(&oil)), ["selected"]);
        let mut other = gas.as_ref().clone();
        other.provisioner = "example.com/other".to_owned();
        let other = Arc::new(other);
        assert_eq!(affected(Some(&gas), Some(&other)), [""; 0]);
    }

    #[test]
    fn lists_existing_classes_that_are_allowed() {
        let classes =
            [class("slow", "gas"), class("fast", "gas"), class("usual", "oil"), class("other", "gas")];
        let list =
            json!({ "allowed": ["slow", "absent"], "allowedRegex": "^fa", "matchLabels": { "tier": "oil" } });
        let filter = ClassFilter::new(&serde_json::from_value(list).unwrap());
        assert_eq!(names(Some(&filter), &classes), ["fast", "slow", "usual"]);
    }
}
