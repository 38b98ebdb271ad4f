//! Recommended labels of children.

use std::collections::BTreeMap;

/// Label of the tool that manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] on all objects of this project's controllers.
pub const MANAGER: &str = "ensemble";
/// Label selector of all objects of this project's controllers.
pub const MANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by=ensemble";

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Returns the recommended labels of a child:
/// `app.kubernetes.io/{name,instance,component,part-of,managed-by}`.
///
/// `name` is the application, `instance` the name of the object that owns the child, and
/// `component` the role of the child. Values of more than 63 characters are omitted, because labels
/// cannot have them.
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

/// Adds labels to those of an object. Other labels stay.
pub fn add(present: &mut Option<Labels>, wanted: Labels) {
    present.get_or_insert_default().extend(wanted);
}
