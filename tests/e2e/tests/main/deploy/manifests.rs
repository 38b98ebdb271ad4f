//! Comparison of manifests.

use std::collections::BTreeMap;

use serde_json::Value;

/// Objects by kind, namespace, and name.
pub(super) type Manifests = BTreeMap<(String, String, String), Value>;

/// Parses YAML documents.
///
/// # Panics
/// Panics if two objects have the same kind, namespace, and name.
pub(super) fn read(manifests: &str) -> Manifests {
    let mut objects = Manifests::new();
    for document in manifests.split("\n---\n").filter(|document| has_content(document)) {
        let mut object: Value =
            serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"));
        normalize_numbers(&mut object);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let key = (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
        let previous = objects.insert(key.clone(), object);
        assert!(previous.is_none(), "{key:?} exists twice");
    }
    objects
}

/// Makes all numbers floats, because `1` and `1.0` are equal for the API server.
fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *value = number.as_f64().into(),
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(fields) => fields.values_mut().for_each(normalize_numbers),
        _ => {}
    }
}

/// Asserts that both sets contain the same objects.
pub(super) fn assert_same(actual: &Manifests, expected: &Manifests) {
    assert_eq!(actual.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (key, object) in actual {
        assert_eq!(Some(object), expected.get(key), "{key:?}");
    }
}

fn has_content(document: &str) -> bool {
    document.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#') && line != "---")
}
