//! Compatibility of the names, the scope, and the versions of a definition.

use serde_json::Value;

use super::schema;

/// Returns the breaking changes of a definition, each as a line that starts with its location.
pub(super) fn breaking_changes(name: &str, old: &Value, new: Option<&Value>) -> Vec<String> {
    let Some(new) = new else {
        return vec![format!("{name}: the definition was removed, which deletes all objects of the kind")];
    };
    let mut changes = Vec::new();
    for (path, what) in [
        ("/spec/group", "group"),
        ("/spec/scope", "scope"),
        ("/spec/names/kind", "kind"),
        ("/spec/names/plural", "plural"),
        ("/spec/names/singular", "singular"),
        ("/spec/names/listKind", "list kind"),
    ] {
        let (before, now) = (old.pointer(path), new.pointer(path));
        if before != now {
            let (before, now) = (text(before), text(now));
            changes.push(format!(
                "{name}: the {what} changed from {before} to {now}: clients do not find the objects"
            ));
        }
    }
    for (path, what) in [("/spec/names/shortNames", "short name"), ("/spec/names/categories", "category")] {
        let now = list(new.pointer(path));
        let removed = list(old.pointer(path)).iter().filter(|name| !now.contains(name));
        changes
            .extend(removed.map(|removed| format!("{name}: the {what} {} was removed", text(Some(removed)))));
    }
    for version in list(old.pointer("/spec/versions")) {
        compare_version(name, version, new, &mut changes);
    }
    compare_storage(name, old, new, &mut changes);
    changes
}

fn compare_version(name: &str, old: &Value, new: &Value, changes: &mut Vec<String>) {
    let version = name_of(old);
    let at = format!("{name} {version}");
    let Some(now) = list(new.pointer("/spec/versions")).iter().find(|one| name_of(one) == version) else {
        changes.push(format!(
            "{at}: the version was removed: objects may be stored in it, and clients may use it"
        ));
        return;
    };
    if is(old, "served") && !is(now, "served") {
        changes.push(format!("{at}: the version is no longer served: clients may use it"));
    }
    let subresources = old.get("subresources").and_then(Value::as_object);
    for subresource in subresources.into_iter().flat_map(|one| one.keys()) {
        if now.pointer(&format!("/subresources/{subresource}")).is_none() {
            changes.push(format!("{at}: the subresource {subresource} was removed: clients may write to it"));
        }
    }
    let schema = "/schema/openAPIV3Schema";
    if let (Some(old), Some(new)) = (old.pointer(schema), now.pointer(schema)) {
        schema::compare(old, new, &at, changes);
    }
}

/// Checks that the last release serves the storage version.
///
/// Otherwise a rollback could not read the stored objects.
fn compare_storage(name: &str, old: &Value, new: &Value, changes: &mut Vec<String>) {
    let stored =
        |definition| list(Value::pointer(definition, "/spec/versions")).iter().find(|one| is(one, "storage"));
    let (Some(before), Some(now)) = (stored(old), stored(new)) else { return };
    let (before, now) = (name_of(before), name_of(now));
    let serves = |definition: &Value, version: &str| {
        let mut versions = list(definition.pointer("/spec/versions")).iter();
        versions.any(|one| name_of(one) == version && is(one, "served"))
    };
    if before == now {
        return;
    }
    if !serves(new, before) {
        changes.push(format!(
            "{name}: the storage version changed from {before} to {now}, and {before} is no longer served"
        ));
    }
    if !serves(old, now) {
        changes.push(format!(
            "{name}: the storage version is {now}, which the last release does not serve: rollback is impossible"
        ));
    }
}

fn name_of(version: &Value) -> &str {
    version.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn is(version: &Value, field: &str) -> bool {
    version.get(field) == Some(&Value::Bool(true))
}

/// Returns the entries of a list, or none if it is not set.
pub(super) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a value as text.
pub(super) fn text(value: Option<&Value>) -> String {
    match value {
        None => "not set".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
