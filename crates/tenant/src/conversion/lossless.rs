//! What one version says and another cannot: the difference between two values that can be put back later, when what
//! it was taken from may have been edited. Pure.
//!
//! An entry is put back only where the edited value is still as it was. What is more than it was stays as it is.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A difference from one value to another.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Preserved {
    /// Some fields of an object differ.
    In(BTreeMap<String, Self>),
    /// Some items of a list differ.
    Items(Items),
    /// It is another value.
    Value(Values),
}

/// One value and the other; none where it is left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Values {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    was: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is: Option<Value>,
}

/// Items that are told apart by their names, or else by what they are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Items {
    /// What differs, with the item that it differs from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    each: Vec<(Value, Preserved)>,
    /// Items that are not in the one list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more: Vec<Value>,
    /// The items of the one list in its order, and of the other in its own, if those differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<(Vec<Value>, Vec<Value>)>,
}

impl Preserved {
    /// What has to be done to `was` to make it `is`; nothing if they are equal.
    pub(super) fn between(was: &Value, is: &Value) -> Option<Self> {
        if was == is {
            return None;
        }
        let kept = match (was, is) {
            (Value::Object(was), Value::Object(is)) => Self::In(fields(was, is)),
            (Value::Array(was), Value::Array(is)) => match items(was, is) {
                Some(items) => Self::Items(items),
                None => Self::other(Some(json!(was)), Some(json!(is))),
            },
            _ => Self::other(Some(was.clone()), Some(is.clone())),
        };
        Some(kept)
    }

    fn other(was: Option<Value>, is: Option<Value>) -> Self {
        Self::Value(Values { was, is })
    }

    /// Does to `now` what had to be done to what it was, where it is still so.
    pub(super) fn restore(&self, now: Value) -> Value {
        self.restore_at("", Some(now)).unwrap_or_default()
    }

    fn restore_at(&self, name: &str, now: Option<Value>) -> Option<Value> {
        match (self, now) {
            (Self::In(kept), Some(Value::Object(mut fields))) => {
                for (name, kept) in kept {
                    let field = fields.remove(name);
                    if let Some(field) = kept.restore_at(name, field) {
                        fields.insert(name.clone(), field);
                    }
                }
                Some(Value::Object(fields))
            }
            (Self::Items(kept), Some(Value::Array(items))) => Some(Value::Array(kept.restore(items))),
            (Self::Value(Values { was, is }), now)
                if means(name, now.as_ref()) == means(name, was.as_ref()) =>
            {
                is.clone()
            }
            // Of an object that was not there at all, some fields may have come.
            (Self::Value(Values { was: None, is: Some(Value::Object(is)) }), Some(Value::Object(fields))) => {
                Some(Value::Object(fill(fields, is)))
            }
            (_, now) => now,
        }
    }
}

fn fields(was: &Map<String, Value>, is: &Map<String, Value>) -> BTreeMap<String, Preserved> {
    let mut names: Vec<_> = was.keys().chain(is.keys()).collect();
    names.sort();
    names.dedup();
    let differ = names.into_iter().filter_map(|name| {
        let kept = match (was.get(name), is.get(name)) {
            (Some(was), Some(is)) => Preserved::between(was, is)?,
            (was, is) => Preserved::other(was.cloned(), is.cloned()),
        };
        Some((name.clone(), kept))
    });
    differ.collect()
}

fn fill(mut fields: Map<String, Value>, is: &Map<String, Value>) -> Map<String, Value> {
    for (name, is) in is {
        let field = fields.remove(name);
        if let Some(field) = Preserved::other(None, Some(is.clone())).restore_at(name, field) {
            fields.insert(name.clone(), field);
        }
    }
    fields
}

/// What a field says, also where it is left out: some are always written.
fn means(name: &str, value: Option<&Value>) -> Option<Value> {
    let left_out = || match name {
        "cordoned" | "preventDeletion" | "managedMetadataOnly" | "allowWildcardHostnames" => {
            Some(json!(false))
        }
        "hostnameCollisionScope" => Some(json!("Disabled")),
        "scope" => Some(json!("Tenant")),
        "conditions" => Some(json!([])),
        _ => None,
    };
    value.cloned().or_else(left_out)
}

/// What tells an item from the others of its list: its kind and name.
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

/// The keys of all items, if each has one of its own.
fn keys(items: &[Value]) -> Option<Vec<Value>> {
    let keys: Vec<_> = items.iter().map(key).collect::<Option<_>>()?;
    let distinct: HashSet<&Value> = keys.iter().collect();
    (distinct.len() == keys.len()).then_some(keys)
}

/// Where each value is first.
fn places<'v>(values: impl IntoIterator<Item = &'v Value>) -> HashMap<&'v Value, usize> {
    let mut places = HashMap::new();
    for (place, value) in values.into_iter().enumerate() {
        places.entry(value).or_insert(place);
    }
    places
}

fn items(was: &[Value], is: &[Value]) -> Option<Items> {
    match (keys(was), keys(is)) {
        (Some(was_keys), Some(is_keys)) => named_items(was, was_keys, is, is_keys),
        _ => placed_items(was, is),
    }
}

fn named_items(was: &[Value], was_keys: Vec<Value>, is: &[Value], is_keys: Vec<Value>) -> Option<Items> {
    let known = places(&was_keys);
    let remaining = is_keys.iter().filter(|key| known.contains_key(key)).count();
    if was_keys.is_empty() || remaining < was_keys.len() {
        return None;
    }
    let mut items = Items::default();
    for (key, item) in is_keys.iter().zip(is) {
        match known.get(key).and_then(|place| was.get(*place)) {
            Some(before) => {
                items.each.extend(Preserved::between(before, item).map(|kept| (key.clone(), kept)));
            }
            None => items.more.push(item.clone()),
        }
    }
    let more = items.more.iter().filter_map(key);
    let usual: Vec<_> = was_keys.iter().cloned().chain(more).collect();
    items.order = (usual != is_keys).then_some((was_keys, is_keys));
    Some(items)
}

/// Items without names, one for one.
fn placed_items(was: &[Value], is: &[Value]) -> Option<Items> {
    if was.len() != is.len() || !was.iter().all(Value::is_object) {
        return None;
    }
    let differ: Vec<_> = was.iter().zip(is).filter(|(was, is)| was != is).collect();
    let mut counts = HashMap::<&Value, usize>::new();
    for item in was {
        *counts.entry(item).or_default() += 1;
    }
    // Of two equal items it could not be told which is meant.
    if differ.iter().any(|(was, _)| counts.get(was) != Some(&1)) {
        return None;
    }
    let each = differ.into_iter().filter_map(|(was, is)| Some((was.clone(), Preserved::between(was, is)?)));
    Some(Items { each: each.collect(), ..Items::default() })
}

impl Items {
    fn restore(&self, mut now: Vec<Value>) -> Vec<Value> {
        if now.is_empty() {
            return now;
        }
        let before = keys(&now);
        for (place, (_, kept)) in self.places_in(&now).into_iter().zip(&self.each) {
            if let Some(item) = place.and_then(|place| now.get_mut(place)) {
                *item = kept.restore(item.take());
            }
        }
        let mut present: HashSet<Option<Value>> = now.iter().map(key).collect();
        for item in &self.more {
            if present.insert(key(item)) {
                now.push(item.clone());
            }
        }
        match &self.order {
            Some((was, is)) if before.as_ref() == Some(was) => {
                let places = places(is);
                now.sort_by_cached_key(|item| places.get(&key(item)?).copied());
                now
            }
            _ => now,
        }
    }

    /// Where the items that differ are now: the first that is equal, or has the key.
    fn places_in(&self, now: &[Value]) -> Vec<Option<usize>> {
        if self.each.is_empty() {
            return Vec::new();
        }
        let equal = places(now);
        let mut named = HashMap::new();
        for (place, item) in now.iter().enumerate() {
            if let Some(key) = key(item) {
                named.entry(key).or_insert(place);
            }
        }
        let place = |which| equal.get(which).into_iter().chain(named.get(which)).min().copied();
        self.each.iter().map(|(which, _)| place(which)).collect()
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
        fn what_was_not_edited_becomes_what_it_is_to_be(was in value(), is in value()) {
            if let Some(kept) = Preserved::between(&was, &is) {
                let text = serde_json::to_string(&kept).unwrap();
                let kept: Preserved = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(kept.restore(was), is);
            } else {
                prop_assert_eq!(was, is);
            }
        }

        #[test]
        fn nothing_is_put_back_into_what_has_nothing_in_common(was in value(), is in value(), now in value()) {
            if let Some(kept) = Preserved::between(&json!({ "a": was }), &json!({ "a": is })) {
                prop_assert_eq!(kept.restore(json!([now.clone()])), json!([now]));
            }
        }
    }

    fn edited(was: Value, is: Value, now: Value) -> Value {
        Preserved::between(&was, &is).unwrap().restore(now)
    }

    #[test]
    fn an_edit_of_another_field_loses_nothing() {
        let (was, is) = (json!({ "a": 1 }), json!({ "a": 1, "b": { "c": 2 } }));
        assert_eq!(edited(was, is, json!({ "a": 3 })), json!({ "a": 3, "b": { "c": 2 } }));
    }

    #[test]
    fn an_edit_of_the_same_field_wins() {
        let (was, is) = (json!({ "a": [1, 2] }), json!({ "a": [2, 1] }));
        assert_eq!(edited(was.clone(), is.clone(), json!({ "a": [1, 2, 3] })), json!({ "a": [1, 2, 3] }));
        assert_eq!(edited(was, is, json!({})), json!({}));
    }

    #[test]
    fn what_was_taken_out_stays_out_with_all_that_was_in_it() {
        let (was, is) = (
            json!({ "list": { "allowed": ["a"] } }),
            json!({ "list": { "allowed": ["a"], "default": "a" } }),
        );
        assert_eq!(edited(was, is, json!({})), json!({}));
    }

    #[test]
    fn fields_that_are_always_written_are_no_edit() {
        let (was, is) = (json!({}), json!({ "options": { "managedMetadataOnly": true, "x": 1 } }));
        let now = json!({ "options": { "managedMetadataOnly": false, "quota": 3 } });
        assert_eq!(
            edited(was, is, now),
            json!({ "options": { "managedMetadataOnly": true, "x": 1, "quota": 3 } })
        );
    }

    #[test]
    fn items_are_found_by_kind_and_name() {
        let owner = |kind: &str, name: &str| json!({ "kind": kind, "name": name });
        let was = json!([owner("User", "a"), owner("User", "b")]);
        let mut labelled = owner("User", "b");
        labelled["labels"] = json!({ "x": "y" });
        let is = json!([labelled.clone(), owner("User", "a"), owner("Group", "c,d")]);
        let now = json!([owner("User", "e"), owner("User", "b")]);
        let expected = json!([owner("User", "e"), labelled, owner("Group", "c,d")]);
        assert_eq!(edited(was.clone(), is.clone(), now), expected);
        assert_eq!(edited(was.clone(), is.clone(), was), is);
    }

    /// What a list of so many items was and is; which of the three ways it goes is told by its items.
    fn long(count: usize, item: impl Fn(usize) -> [Value; 2]) -> [Vec<Value>; 2] {
        let (was, is) = (0..count).map(item).map(|[was, is]| (was, is)).unzip();
        [was, is]
    }

    #[test]
    fn long_lists_take_no_longer_than_they_are_long() {
        const COUNT: usize = 10_000;
        let owner = |number: usize, more: Value| json!({ "kind": "User", "name": format!("owner-{number}"), "more": more });
        let [was, mut is] = long(COUNT, |number| [owner(number, json!(0)), owner(number, json!(number + 1))]);
        is.reverse();
        is.extend((COUNT..2 * COUNT).map(|number| owner(number, json!(1))));
        let anonymous = long(COUNT, |number| [json!({ "is": number }), json!({ "is": number, "more": 1 })]);
        let began = std::time::Instant::now();
        for [was, is] in [[was, is], anonymous] {
            let (was, is) = (Value::from(was), Value::from(is));
            assert_eq!(edited(was.clone(), is.clone(), was), is);
        }
        // Comparing each with each took minutes.
        assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    }
}
