//! The difference between two values, which can be applied later to an edited value. Pure.
//!
//! Conversion stores the fields that another version does not have as such a difference. An entry
//! is applied only if the edit did not change its field. Additions of the edit are kept.
//!
//! The serialized form is stored in annotations of Tenants, so the serde names must not change.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The difference between two values.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Preserved {
    /// Fields of an object differ.
    #[serde(rename = "in")]
    Fields(BTreeMap<String, Self>),
    /// Items of a list differ.
    Items(Items),
    /// The values differ as a whole.
    Value(Values),
}

/// Two values. `None` means that the field is absent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Values {
    #[serde(default, rename = "was", skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    #[serde(default, rename = "is", skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

/// Differences of lists. Items are identified by kind and name, or else by their value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Items {
    /// Changed items, each with its key or its old value.
    #[serde(default, rename = "each", skip_serializing_if = "Vec::is_empty")]
    changed: Vec<(Value, Preserved)>,
    /// Items that are only in the second list.
    #[serde(default, rename = "more", skip_serializing_if = "Vec::is_empty")]
    added: Vec<Value>,
    /// The keys of both lists, if their order differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<(Vec<Value>, Vec<Value>)>,
}

impl Preserved {
    /// Returns the difference, or `None` if the values are equal.
    pub(super) fn between(before: &Value, after: &Value) -> Option<Self> {
        if before == after {
            return None;
        }
        let preserved = match (before, after) {
            (Value::Object(before), Value::Object(after)) => Self::Fields(fields(before, after)),
            (Value::Array(before), Value::Array(after)) => match items(before, after) {
                Some(items) => Self::Items(items),
                None => Self::value(Some(json!(before)), Some(json!(after))),
            },
            _ => Self::value(Some(before.clone()), Some(after.clone())),
        };
        Some(preserved)
    }

    fn value(before: Option<Value>, after: Option<Value>) -> Self {
        Self::Value(Values { before, after })
    }

    /// Applies the difference to `now`, except where `now` was edited.
    pub(super) fn restore(&self, now: Value) -> Value {
        self.restore_at("", Some(now)).unwrap_or_default()
    }

    fn restore_at(&self, name: &str, now: Option<Value>) -> Option<Value> {
        match (self, now) {
            (Self::Fields(preserved), Some(Value::Object(mut fields))) => {
                for (name, preserved) in preserved {
                    let field = fields.remove(name);
                    if let Some(field) = preserved.restore_at(name, field) {
                        fields.insert(name.clone(), field);
                    }
                }
                Some(Value::Object(fields))
            }
            (Self::Items(preserved), Some(Value::Array(items))) => {
                Some(Value::Array(preserved.restore(items)))
            }
            (Self::Value(Values { before, after }), now)
                if with_default(name, now.as_ref()) == with_default(name, before.as_ref()) =>
            {
                after.clone()
            }
            // The object was absent before. The edit may have added some of its fields.
            (
                Self::Value(Values { before: None, after: Some(Value::Object(after)) }),
                Some(Value::Object(fields)),
            ) => Some(Value::Object(fill(fields, after))),
            (_, now) => now,
        }
    }
}

fn fields(before: &Map<String, Value>, after: &Map<String, Value>) -> BTreeMap<String, Preserved> {
    let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let differ = names.into_iter().filter_map(|name| {
        let preserved = match (before.get(name), after.get(name)) {
            (Some(before), Some(after)) => Preserved::between(before, after)?,
            (before, after) => Preserved::value(before.cloned(), after.cloned()),
        };
        Some((name.clone(), preserved))
    });
    differ.collect()
}

fn fill(mut fields: Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    for (name, after) in after {
        let field = fields.remove(name);
        if let Some(field) = Preserved::value(None, Some(after.clone())).restore_at(name, field) {
            fields.insert(name.clone(), field);
        }
    }
    fields
}

/// Returns the value of a field, or its default if it is absent. Some fields are always serialized.
fn with_default(name: &str, value: Option<&Value>) -> Option<Value> {
    let default = || match name {
        "cordoned" | "preventDeletion" | "managedMetadataOnly" | "allowWildcardHostnames" => {
            Some(json!(false))
        }
        "hostnameCollisionScope" => Some(json!("Disabled")),
        "scope" => Some(json!("Tenant")),
        "conditions" => Some(json!([])),
        _ => None,
    };
    value.cloned().or_else(default)
}

/// Returns the key of an item: its kind and name.
fn key(item: &Value) -> Option<Value> {
    item.get("name")?.as_str()?;
    let mut key = Map::new();
    for field in ["kind", "name"] {
        if let Some(value) = item.get(field) {
            key.insert(field.to_owned(), value.clone());
        }
    }
    Some(Value::Object(key))
}

/// Returns the keys of all items, or `None` if a key is missing or not unique.
fn keys(items: &[Value]) -> Option<Vec<Value>> {
    let keys: Vec<_> = items.iter().map(key).collect::<Option<_>>()?;
    let distinct: HashSet<&Value> = keys.iter().collect();
    (distinct.len() == keys.len()).then_some(keys)
}

/// Returns the first position of each value.
fn positions<'v>(values: impl IntoIterator<Item = &'v Value>) -> HashMap<&'v Value, usize> {
    let mut positions = HashMap::new();
    for (position, value) in values.into_iter().enumerate() {
        positions.entry(value).or_insert(position);
    }
    positions
}

fn items(before: &[Value], after: &[Value]) -> Option<Items> {
    match (keys(before), keys(after)) {
        (Some(before_keys), Some(after_keys)) => named_items(before, before_keys, after, after_keys),
        _ => unnamed_items(before, after),
    }
}

fn named_items(
    before: &[Value],
    before_keys: Vec<Value>,
    after: &[Value],
    after_keys: Vec<Value>,
) -> Option<Items> {
    let positions_before = positions(&before_keys);
    let remaining = after_keys.iter().filter(|key| positions_before.contains_key(key)).count();
    if before_keys.is_empty() || remaining < before_keys.len() {
        return None;
    }
    let mut items = Items::default();
    for (key, item) in after_keys.iter().zip(after) {
        match positions_before.get(key).and_then(|position| before.get(*position)) {
            Some(old) => {
                items.changed.extend(Preserved::between(old, item).map(|preserved| (key.clone(), preserved)));
            }
            None => items.added.push(item.clone()),
        }
    }
    let added = items.added.iter().filter_map(key);
    let default_order: Vec<_> = before_keys.iter().cloned().chain(added).collect();
    items.order = (default_order != after_keys).then_some((before_keys, after_keys));
    Some(items)
}

/// Compares items without names by position.
fn unnamed_items(before: &[Value], after: &[Value]) -> Option<Items> {
    if before.len() != after.len() || !before.iter().all(Value::is_object) {
        return None;
    }
    let differ: Vec<_> = before.iter().zip(after).filter(|(before, after)| before != after).collect();
    let mut counts = HashMap::<&Value, usize>::new();
    for item in before {
        *counts.entry(item).or_default() += 1;
    }
    // Equal items cannot be told apart later.
    if differ.iter().any(|(before, _)| counts.get(before) != Some(&1)) {
        return None;
    }
    let changed = differ
        .into_iter()
        .filter_map(|(before, after)| Some((before.clone(), Preserved::between(before, after)?)));
    Some(Items { changed: changed.collect(), ..Items::default() })
}

impl Items {
    fn restore(&self, mut now: Vec<Value>) -> Vec<Value> {
        if now.is_empty() {
            return now;
        }
        let current_keys = keys(&now);
        for (position, (_, preserved)) in self.positions_in(&now).into_iter().zip(&self.changed) {
            if let Some(item) = position.and_then(|position| now.get_mut(position)) {
                *item = preserved.restore(item.take());
            }
        }
        let mut present: HashSet<Option<Value>> = now.iter().map(key).collect();
        for item in &self.added {
            if present.insert(key(item)) {
                now.push(item.clone());
            }
        }
        match &self.order {
            Some((before, after)) if current_keys.as_ref() == Some(before) => {
                let positions = positions(after);
                now.sort_by_cached_key(|item| positions.get(&key(item)?).copied());
                now
            }
            _ => now,
        }
    }

    /// Returns the current position of each changed item: the first item that is equal or has the
    /// key.
    fn positions_in(&self, now: &[Value]) -> Vec<Option<usize>> {
        if self.changed.is_empty() {
            return Vec::new();
        }
        let equal = positions(now);
        let mut named = HashMap::new();
        for (position, item) in now.iter().enumerate() {
            if let Some(key) = key(item) {
                named.entry(key).or_insert(position);
            }
        }
        let position = |which| equal.get(which).into_iter().chain(named.get(which)).min().copied();
        self.changed.iter().map(|(which, _)| position(which)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..4).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]|kind|name", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn restores_unedited_value(before in value(), after in value()) {
            if let Some(preserved) = Preserved::between(&before, &after) {
                let text = serde_json::to_string(&preserved).unwrap();
                let preserved: Preserved = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(preserved.restore(before), after);
            } else {
                prop_assert_eq!(before, after);
            }
        }

        #[test]
        fn does_not_change_unrelated_value(before in value(), after in value(), now in value()) {
            if let Some(preserved) = Preserved::between(&json!({ "a": before }), &json!({ "a": after })) {
                prop_assert_eq!(preserved.restore(json!([now.clone()])), json!([now]));
            }
        }
    }

    fn edited(before: Value, after: Value, now: Value) -> Value {
        Preserved::between(&before, &after).unwrap().restore(now)
    }

    /// Stored Tenants contain this format.
    #[test]
    fn serialized_names_are_stable() {
        let owner = |name: &str, more: u8| json!({ "name": name, "more": more });
        let before = json!({ "a": 1, "list": [owner("x", 0), owner("y", 0)] });
        let after = json!({ "b": 2, "list": [owner("z", 0), owner("y", 1), owner("x", 0)] });
        let difference = serde_json::to_value(Preserved::between(&before, &after)).unwrap();
        let key = |name: &str| json!({ "name": name });
        let change = json!({ "in": { "more": { "value": { "was": 0, "is": 1 } } } });
        let items = json!({
            "each": [[key("y"), change]],
            "more": [owner("z", 0)],
            "order": [[key("x"), key("y")], [key("z"), key("y"), key("x")]],
        });
        let expected = json!({ "in": {
            "a": { "value": { "was": 1 } }, "b": { "value": { "is": 2 } }, "list": { "items": items },
        } });
        assert_eq!(difference, expected);
    }

    #[test]
    fn edit_of_another_field_keeps_preserved_fields() {
        let (before, after) = (json!({ "a": 1 }), json!({ "a": 1, "b": { "c": 2 } }));
        assert_eq!(edited(before, after, json!({ "a": 3 })), json!({ "a": 3, "b": { "c": 2 } }));
    }

    #[test]
    fn edit_of_the_same_field_wins() {
        let (before, after) = (json!({ "a": [1, 2] }), json!({ "a": [2, 1] }));
        assert_eq!(
            edited(before.clone(), after.clone(), json!({ "a": [1, 2, 3] })),
            json!({ "a": [1, 2, 3] })
        );
        assert_eq!(edited(before, after, json!({})), json!({}));
    }

    #[test]
    fn does_not_restore_fields_of_a_removed_object() {
        let (before, after) = (
            json!({ "list": { "allowed": ["a"] } }),
            json!({ "list": { "allowed": ["a"], "default": "a" } }),
        );
        assert_eq!(edited(before, after, json!({})), json!({}));
    }

    #[test]
    fn default_of_serialized_field_is_not_an_edit() {
        let (before, after) = (json!({}), json!({ "options": { "managedMetadataOnly": true, "x": 1 } }));
        let now = json!({ "options": { "managedMetadataOnly": false, "quota": 3 } });
        assert_eq!(
            edited(before, after, now),
            json!({ "options": { "managedMetadataOnly": true, "x": 1, "quota": 3 } })
        );
    }

    #[test]
    fn matches_items_by_kind_and_name() {
        let owner = |kind: &str, name: &str| json!({ "kind": kind, "name": name });
        let before = json!([owner("User", "a"), owner("User", "b")]);
        let mut labelled = owner("User", "b");
        labelled["labels"] = json!({ "x": "y" });
        let after = json!([labelled.clone(), owner("User", "a"), owner("Group", "c,d")]);
        let now = json!([owner("User", "e"), owner("User", "b")]);
        let expected = json!([owner("User", "e"), labelled, owner("Group", "c,d")]);
        assert_eq!(edited(before.clone(), after.clone(), now), expected);
        assert_eq!(edited(before.clone(), after.clone(), before), after);
    }

    /// Returns two lists with this number of items.
    fn long(count: usize, item: impl Fn(usize) -> [Value; 2]) -> [Vec<Value>; 2] {
        let (before, after) = (0..count).map(item).map(|[before, after]| (before, after)).unzip();
        [before, after]
    }

    #[test]
    fn restores_long_lists_in_linear_time() {
        const COUNT: usize = 10_000;
        let owner = |number: usize, more: Value| json!({ "kind": "User", "name": format!("owner-{number}"), "more": more });
        let [before, mut after] =
            long(COUNT, |number| [owner(number, json!(0)), owner(number, json!(number + 1))]);
        after.reverse();
        after.extend((COUNT..2 * COUNT).map(|number| owner(number, json!(1))));
        let anonymous = long(COUNT, |number| [json!({ "is": number }), json!({ "is": number, "more": 1 })]);
        let began = std::time::Instant::now();
        for [before, after] in [[before, after], anonymous] {
            let (before, after) = (Value::from(before), Value::from(after));
            assert_eq!(edited(before.clone(), after.clone(), before), after);
        }
        // A quadratic comparison took minutes.
        assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    }
}
