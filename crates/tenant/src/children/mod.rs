//! Objects that a Tenant manages in each of its namespaces: their desired state and its comparison
//! with existing objects.
//!
//! Objects are compared with the defaults of the API server applied, so that an unchanged object is
//! not written again.

mod limit_range;
mod network_policy;
mod resource_quota;
mod role_binding;

use std::{collections::BTreeMap, fmt::Display};

use capsule::api::names::{OBJECT_MANAGER, OBJECT_MANAGER_LABEL, OBJECT_TENANT_LABEL};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use operator_core::labels;

pub use self::{
    limit_range::limit_ranges,
    network_policy::{cidr_warnings, network_policies},
    resource_quota::{namespace_quota, tenant_quota},
    role_binding::{Binding, role_bindings},
};

/// Kind of object that a Tenant manages in its namespaces. `self` is the desired object.
pub trait Child: Sized {
    /// Changes `found` to the desired state. Equivalent values stay, and so do other labels and
    /// annotations.
    fn apply_to(&self, found: &mut Self);

    /// Returns whether the API server would reject the update of `found`, so that it must be
    /// recreated.
    fn must_recreate(&self, _found: &Self) -> bool {
        false
    }
}

/// Returns the name, namespace, and labels of a child with this label.
fn meta(tenant: &str, namespace: &str, component: &str, name: String, label: (&str, String)) -> ObjectMeta {
    let mut labels = labels::recommended("tenant", tenant, component);
    labels.extend([
        (OBJECT_MANAGER_LABEL.to_owned(), OBJECT_MANAGER.to_owned()),
        (OBJECT_TENANT_LABEL.to_owned(), tenant.to_owned()),
        (label.0.to_owned(), label.1),
    ]);
    ObjectMeta {
        name: Some(name),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

/// Returns the [`meta`] of an item with this key, such as its index in one of the Tenant's lists.
fn keyed_meta(tenant: &str, namespace: &str, component: &str, label: &str, key: impl Display) -> ObjectMeta {
    meta(tenant, namespace, component, format!("capsule-{tenant}-{key}"), (label, key.to_string()))
}

fn apply_meta(desired: &ObjectMeta, found: &mut ObjectMeta) {
    for (desired, found) in
        [(&desired.labels, &mut found.labels), (&desired.annotations, &mut found.annotations)]
    {
        if let Some(desired) = desired.as_ref().filter(|desired| !desired.is_empty()) {
            found.get_or_insert_with(BTreeMap::new).extend(desired.clone());
        }
    }
}
