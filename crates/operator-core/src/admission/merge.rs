//! Patches of objects through a type that does not have all their fields.

use std::collections::BTreeMap;

use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde_json::{Map, Value, value::RawValue};

/// Returns the JSON patch for `object` that corresponds to the change from `before` to `after`,
/// which are the object as a type represents it. Fields that the type does not have stay.
///
/// Only the parts of the object that change are parsed.
///
/// # Errors
/// Returns an error if a part of the object is no JSON.
pub(super) fn patch(object: &RawValue, before: &Value, after: &Value) -> serde_json::Result<Patch> {
    let mut operations = Vec::new();
    collect(object, before, after, &mut PointerBuf::new(), &mut operations)?;
    Ok(Patch(operations))
}

/// Adds the operations for the part of the object at `path`.
fn collect(
    object: &RawValue,
    before: &Value,
    after: &Value,
    path: &mut PointerBuf,
    operations: &mut Vec<PatchOperation>,
) -> serde_json::Result<()> {
    if before == after {
        return Ok(());
    }
    let fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(object.get());
    if let (Ok(fields), Value::Object(before), Value::Object(after)) = (fields, before, after) {
        return collect_fields(&fields, before, after, path, operations);
    }
    let object = serde_json::from_str(object.get())?;
    let changed = json_patch::diff(&object, &merge(&object, before, after));
    operations.extend(changed.0.into_iter().map(|operation| within(path, operation)));
    Ok(())
}

fn collect_fields(
    object: &BTreeMap<String, &RawValue>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &mut PointerBuf,
    operations: &mut Vec<PatchOperation>,
) -> serde_json::Result<()> {
    let is_removed = |name: &&String| !after.contains_key(*name) && object.contains_key(*name);
    for name in before.keys().filter(is_removed) {
        operations.push(PatchOperation::Remove(RemoveOperation { path: child(path, name) }));
    }
    for (name, new) in after {
        match (object.get(name), before.get(name)) {
            // The type serializes a default that the object does not have.
            (None, Some(old)) if old == new => {}
            (Some(there), Some(old)) => {
                path.push_back(name.as_str());
                collect(there, old, new, path, operations)?;
                path.pop_back();
            }
            (_, _) => {
                // Replaces a field that exists.
                let add = AddOperation { path: child(path, name), value: new.clone() };
                operations.push(PatchOperation::Add(add));
            }
        }
    }
    Ok(())
}

fn child(path: &PointerBuf, name: &str) -> PointerBuf {
    let mut path = path.clone();
    path.push_back(name);
    path
}

/// Returns the operation of a part of the object as an operation of the object. A difference only
/// has these three.
fn within(path: &PointerBuf, operation: PatchOperation) -> PatchOperation {
    let inner = |at: PointerBuf| {
        let mut path = path.clone();
        path.append(&at);
        path
    };
    match operation {
        PatchOperation::Add(AddOperation { path, value }) => {
            PatchOperation::Add(AddOperation { path: inner(path), value })
        }
        PatchOperation::Remove(RemoveOperation { path }) => {
            PatchOperation::Remove(RemoveOperation { path: inner(path) })
        }
        PatchOperation::Replace(ReplaceOperation { path, value }) => {
            PatchOperation::Replace(ReplaceOperation { path: inner(path), value })
        }
        other => other,
    }
}

/// Applies the difference between `before` and `after` to `object`.
fn merge(object: &Value, before: &Value, after: &Value) -> Value {
    match (object, before, after) {
        (object, before, after) if before == after => object.clone(),
        (Value::Object(object), Value::Object(before), Value::Object(after)) => {
            Value::Object(merge_fields(object, before, after))
        }
        (Value::Array(object), Value::Array(before), Value::Array(after)) if object.len() == before.len() => {
            Value::Array(merge_items(object, before, after))
        }
        (_, _, after) => after.clone(),
    }
}

fn merge_fields(
    object: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = object.clone();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        merged.remove(name);
    }
    for (name, new) in after {
        match (object.get(name), before.get(name)) {
            // The type serializes a default that the object does not have.
            (None, Some(old)) if old == new => {}
            (Some(there), Some(old)) => drop(merged.insert(name.clone(), merge(there, old, new))),
            _ => drop(merged.insert(name.clone(), new.clone())),
        }
    }
    merged
}

/// Matches each new item with the item that it was before: an equal one, or else the one with the
/// same name, or else the one at the same index if neither has a name.
fn merge_items(object: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let mut unmatched: Vec<_> = before.iter().zip(object).map(Some).collect();
    let mut merged: Vec<Option<Value>> = after
        .iter()
        .map(|new| take(&mut unmatched, |_, old| old == new).map(|(_, original)| original.clone()))
        .collect();
    for (index, new) in after.iter().enumerate() {
        if let Some(item) = merged.get_mut(index).filter(|item| item.is_none()) {
            let same = |at: usize, old: &Value| match (name(old), name(new)) {
                (None, None) => at == index,
                (old, new) => old == new,
            };
            let found = take(&mut unmatched, same).map(|(old, original)| merge(original, old, new));
            *item = Some(found.unwrap_or_else(|| new.clone()));
        }
    }
    merged.into_iter().flatten().collect()
}

/// Takes the first unmatched pair, of an item before and the item in the object, that meets
/// `predicate`.
fn take<'v>(
    unmatched: &mut [Option<(&'v Value, &'v Value)>],
    predicate: impl Fn(usize, &Value) -> bool,
) -> Option<(&'v Value, &'v Value)> {
    let mut pairs = unmatched.iter_mut().enumerate();
    pairs
        .find(|(at, pair)| pair.is_some_and(|(old, _)| predicate(*at, old)))
        .and_then(|(_, pair)| pair.take())
}

fn name(item: &Value) -> Option<&Value> {
    item.get("name")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::Pod;
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    /// Returns `object` after `change` was applied to it as a `T`.
    fn changed<T: Serialize + for<'de> Deserialize<'de> + Clone>(
        object: Value,
        change: impl Fn(&mut T),
    ) -> Value {
        let before: T = serde_json::from_value(object.clone()).unwrap();
        let mut after = before.clone();
        change(&mut after);
        let [before, after] = [&before, &after].map(|value| serde_json::to_value(value).unwrap());
        let raw = serde_json::value::to_raw_value(&object).unwrap();
        let patch = patch(&raw, &before, &after).unwrap();
        let mut result = object;
        json_patch::patch(&mut result, &patch).unwrap();
        result
    }

    #[test]
    fn preserves_fields_that_the_type_does_not_have() {
        let pod = json!({
            "metadata": { "name": "web", "novelty": 1 },
            "spec": {
                "containers": [
                    { "name": "a", "image": "one", "novelty": 2 },
                    { "name": "b", "image": "two", "novelty": 3 },
                ],
                "novelty": { "deep": [1, 2] },
            },
        });
        let result = changed::<Pod>(pod, |pod| {
            let spec = pod.spec.as_mut().unwrap();
            spec.priority_class_name = Some("high".to_owned());
            spec.containers.remove(0);
            spec.containers[0].image = Some("three".to_owned());
        });
        let expected = json!({
            "metadata": { "name": "web", "novelty": 1 },
            "spec": {
                "priorityClassName": "high",
                "containers": [{ "name": "b", "image": "three", "novelty": 3 }],
                "novelty": { "deep": [1, 2] },
            },
        });
        assert_eq!(result, expected);
    }

    #[test]
    fn names_of_fields_are_escaped_in_paths() {
        let pod = json!({ "metadata": { "labels": { "a/b": "1", "c~d": "2", "e": "3" } } });
        let result = changed::<Pod>(pod, |pod| {
            let labels = pod.metadata.labels.as_mut().unwrap();
            labels.insert("a/b".to_owned(), "changed".to_owned());
            labels.insert("f~1/g".to_owned(), "new".to_owned());
            labels.remove("c~d");
        });
        assert_eq!(result["metadata"]["labels"], json!({ "a/b": "changed", "e": "3", "f~1/g": "new" }));
    }

    #[test]
    fn reordered_items_keep_their_unknown_fields() {
        let pod = json!({ "metadata": {}, "spec": { "containers": [
            { "name": "a", "novelty": 1 }, { "name": "b", "novelty": 2 },
        ]}});
        let result = changed::<Pod>(pod, |pod| {
            let containers = &mut pod.spec.as_mut().unwrap().containers;
            containers.reverse();
            containers[0].image = Some("x".to_owned());
        });
        let containers = json!([{ "name": "b", "image": "x", "novelty": 2 }, { "name": "a", "novelty": 1 }]);
        assert_eq!(result["spec"]["containers"], containers);
    }

    /// A type that serializes a default and omits empty fields.
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
    struct Thing {
        #[serde(default)]
        on: bool,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        map: BTreeMap<String, i64>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        list: Vec<i64>,
    }

    #[test]
    fn defaults_of_the_type_are_no_change() {
        let object = json!({ "map": {}, "other": null });
        assert_eq!(changed::<Thing>(object.clone(), |_| {}), object);
        let result = changed::<Thing>(object, |thing| {
            thing.on = true;
            thing.map.insert("a".to_owned(), 1);
        });
        assert_eq!(result, json!({ "on": true, "map": { "a": 1 }, "other": null }));
    }

    fn thing() -> impl Strategy<Value = Thing> {
        let map = proptest::collection::btree_map("[a-c]{1,2}", 0_i64..4, 0..4);
        (any::<bool>(), map, proptest::collection::vec(0_i64..4, 0..5)).prop_map(|(on, map, list)| Thing {
            on,
            map,
            list,
        })
    }

    proptest! {
        #[test]
        fn applies_the_change_and_preserves_unknown_fields(before in thing(), after in thing()) {
            let mut object = serde_json::to_value(&before).unwrap();
            object["novelty"] = json!({ "a": [1] });
            let result = changed::<Thing>(object, |thing| *thing = after.clone());
            prop_assert_eq!(&result["novelty"], &json!({ "a": [1] }));
            prop_assert_eq!(serde_json::from_value::<Thing>(result).unwrap(), after);
        }
    }
}
