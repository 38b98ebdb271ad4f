//! The objects that a Tenant keeps in each of its namespaces: what they are to be, and when one that is there
//! says so.
//!
//! Each is compared in the form in which the API server serves it, with its defaults filled in, so that what
//! was written once is not written again.

mod limit_range;
mod network_policy;
mod resource_quota;
mod role_binding;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use operator_core::labels;

pub use self::{
    limit_range::limit_ranges,
    network_policy::{cidr_warnings, network_policies},
    resource_quota::{namespace_quota, tenant_quota},
    role_binding::{Binding, role_bindings},
};
use crate::api::names::{OBJECT_MANAGER, OBJECT_MANAGER_LABEL, OBJECT_TENANT_LABEL};

/// A kind of object that a Tenant keeps in its namespaces. `self` is the object as it is to be.
pub trait Child: Sized {
    /// The label that tells the objects of this kind and Tenant apart. Pruning goes by it.
    const KEY: &'static str;

    /// Makes `found` what it is to be. What says the same in other words stays, and so do labels and
    /// annotations of others.
    fn settle(&self, found: &mut Self);

    /// Whether the API server would refuse the change from `found`, so that it must be deleted and made anew.
    fn must_replace(&self, _found: &Self) -> bool {
        false
    }
}

/// Name, namespace and labels of the child of a Tenant with that key.
fn meta(tenant: &str, namespace: &str, component: &str, name: String, key: (&str, String)) -> ObjectMeta {
    let mut labels = labels::recommended("tenant", tenant, component);
    labels.extend([
        (OBJECT_MANAGER_LABEL.to_owned(), OBJECT_MANAGER.to_owned()),
        (OBJECT_TENANT_LABEL.to_owned(), tenant.to_owned()),
        (key.0.to_owned(), key.1),
    ]);
    ObjectMeta {
        name: Some(name),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

/// [`meta`] of the item at an index of one of the Tenant's lists.
fn indexed(tenant: &str, namespace: &str, component: &str, label: &str, index: usize) -> ObjectMeta {
    meta(tenant, namespace, component, format!("capsule-{tenant}-{index}"), (label, index.to_string()))
}

fn settle_meta(wanted: &ObjectMeta, found: &mut ObjectMeta) {
    for (wanted, found) in
        [(&wanted.labels, &mut found.labels), (&wanted.annotations, &mut found.annotations)]
    {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| !wanted.is_empty()) {
            found.get_or_insert_with(BTreeMap::new).extend(wanted.clone());
        }
    }
}
