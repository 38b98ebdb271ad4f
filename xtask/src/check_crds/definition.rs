//! What of a definition must stay as it was released: what it is called, its scope and its versions. Pure.

use serde_json::Value;

use super::schema;

/// What the new definition does not take or do that the old one did; each in a line that begins with where.
pub(super) fn breaks(name: &str, old: &Value, new: Option<&Value>) -> Vec<String> {
    let Some(new) = new else {
        return vec![format!("{name}: the definition is gone, and with it all objects of the kind")];
    };
    let mut breaks = Vec::new();
    for (path, what) in [
        ("/spec/group", "group"),
        ("/spec/scope", "scope"),
        ("/spec/names/kind", "kind"),
        ("/spec/names/plural", "plural"),
        ("/spec/names/singular", "singular"),
        ("/spec/names/listKind", "kind of lists"),
    ] {
        let (before, now) = (old.pointer(path), new.pointer(path));
        if before != now {
            let (before, now) = (text(before), text(now));
            breaks.push(format!("{name}: the {what} was {before} and is {now}: nobody finds the objects"));
        }
    }
    for (path, what) in [("/spec/names/shortNames", "short name"), ("/spec/names/categories", "category")] {
        let now = list(new.pointer(path));
        let gone = list(old.pointer(path)).iter().filter(|name| !now.contains(name));
        breaks.extend(gone.map(|gone| format!("{name}: the {what} {} is gone", text(Some(gone)))));
    }
    for version in list(old.pointer("/spec/versions")) {
        compare_version(name, version, new, &mut breaks);
    }
    stored(name, old, new, &mut breaks);
    breaks
}

fn compare_version(name: &str, old: &Value, new: &Value, breaks: &mut Vec<String>) {
    let version = name_of(old);
    let at = format!("{name} {version}");
    let Some(now) = list(new.pointer("/spec/versions")).iter().find(|one| name_of(one) == version) else {
        breaks
            .push(format!("{at}: the version is gone: objects may be stored in it, and clients may use it"));
        return;
    };
    if is(old, "served") && !is(now, "served") {
        breaks.push(format!("{at}: the version is no longer served: clients may use it"));
    }
    let subresources = old.get("subresources").and_then(Value::as_object);
    for subresource in subresources.into_iter().flat_map(|one| one.keys()) {
        if now.pointer(&format!("/subresources/{subresource}")).is_none() {
            breaks.push(format!("{at}: the subresource {subresource} is gone: clients may write to it"));
        }
    }
    let schema = "/schema/openAPIV3Schema";
    if let (Some(old), Some(new)) = (old.pointer(schema), now.pointer(schema)) {
        schema::compare(old, new, &at, breaks);
    }
}

/// A new version may be stored in once a release has served it: until then a manager of before could not read what is stored.
fn stored(name: &str, old: &Value, new: &Value, breaks: &mut Vec<String>) {
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
        breaks.push(format!(
            "{name}: objects are stored as {now} and no longer as {before}, which is not served either"
        ));
    }
    if !serves(old, now) {
        breaks.push(format!(
            "{name}: objects are stored as {now}, which the last release does not serve: no way back"
        ));
    }
}

fn name_of(version: &Value) -> &str {
    version.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn is(version: &Value, field: &str) -> bool {
    version.get(field) == Some(&Value::Bool(true))
}

/// The entries of a list; none if it is not there.
pub(super) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A value, for people.
pub(super) fn text(value: Option<&Value>) -> String {
    match value {
        None => "not set".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
