//! The recommended labels that every child carries.

use std::collections::BTreeMap;

/// Who manages an object, `app.kubernetes.io/managed-by`.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] on everything that the controllers of this project make.
pub const MANAGER: &str = "ensemble";
/// Selects everything that the controllers of this project make.
pub const MANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by=ensemble";

/// A set of labels, as Kubernetes objects carry it.
pub type Labels = BTreeMap<String, String>;

/// The recommended labels (`app.kubernetes.io/{name,instance,component,part-of,managed-by}`) of a child.
///
/// `name` is the application, `instance` the object that asked for the child, `component` the child's part
/// in it. A label's value has at most 63 characters, so longer instances are left out.
pub fn recommended(name: &str, instance: &str, component: &str) -> Labels {
    [
        ("name", name),
        ("instance", instance),
        ("component", component),
        ("part-of", MANAGER),
        ("managed-by", MANAGER),
    ]
    .into_iter()
    .filter(|(_, value)| value.len() <= 63)
    .map(|(key, value)| (format!("app.kubernetes.io/{key}"), value.to_owned()))
    .collect()
}

/// Puts labels onto those that an object has; others stay.
pub fn add(present: &mut Option<Labels>, wanted: Labels) {
    present.get_or_insert_default().extend(wanted);
}
