//! Manifests as values that can be compared.

use std::collections::BTreeMap;

use serde_json::Value;

/// The objects of a text with several documents, by kind, namespace and name.
pub(super) type Objects = BTreeMap<(String, String, String), Value>;

/// Reads manifests. Two of one name are an error.
pub(super) fn read(manifests: &str) -> Objects {
    let mut objects = Objects::new();
    for document in manifests.split("\n---\n").filter(|document| has_content(document)) {
        let mut object: Value =
            serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"));
        number_alike(&mut object);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let key = (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
        let before = objects.insert(key.clone(), object);
        assert!(before.is_none(), "{key:?} is there twice");
    }
    objects
}

/// `1` and `1.0` are the same to the API server.
fn number_alike(value: &mut Value) {
    match value {
        Value::Number(number) => *value = number.as_f64().into(),
        Value::Array(items) => items.iter_mut().for_each(number_alike),
        Value::Object(fields) => fields.values_mut().for_each(number_alike),
        _ => {}
    }
}

/// Holds two sets of manifests to having the same objects.
pub(super) fn assert_same(found: &Objects, wanted: &Objects) {
    assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (key, object) in found {
        assert_eq!(Some(object), wanted.get(key), "{key:?}");
    }
}

fn has_content(document: &str) -> bool {
    document.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#') && line != "---")
}
