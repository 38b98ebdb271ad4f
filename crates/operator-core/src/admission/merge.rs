//! Patches of objects through a type that does not have all their fields.

use json_patch::Patch;
use serde_json::{Map, Value};

/// Returns the JSON patch for `object` that corresponds to the change from `before` to `after`,
/// which are the object as a type represents it. Fields that the type does not have stay.
pub(super) fn patch(object: &Value, before: &Value, after: &Value) -> Patch {
    json_patch::diff(object, &merge(object, before, after))
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
        let patch =
            patch(&object, &serde_json::to_value(&before).unwrap(), &serde_json::to_value(&after).unwrap());
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
