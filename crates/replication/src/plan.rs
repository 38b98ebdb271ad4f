//! Plans a reconcile: what is applied to each object, and what is pruned. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capsule::api::v1beta2::ProcessedItem;

use crate::item::{Item, ItemKey, ObjectId};

/// The work on one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ObjectPlan {
    /// Items that the spec describes, sorted by their keys.
    pub(crate) items: Vec<Item>,
    /// Items of the status that the spec no longer describes.
    pub(crate) stale: Vec<ProcessedItem>,
}

/// The work on all objects. Objects without items are pruned first. From an object with items, the
/// stale items are released after the others are applied, so that it never loses its labels.
pub(crate) type Plan = BTreeMap<ObjectId, ObjectPlan>;

/// Returns the plan for the desired items and the items in the status.
pub(crate) fn plan(items: Vec<Item>, processed: &[ProcessedItem]) -> Plan {
    let mut plan = Plan::new();
    let desired: BTreeSet<_> = items.iter().map(|item| place(&item.key)).collect();
    for item in items {
        plan.entry(item.key.object.clone()).or_default().items.push(item);
    }
    for work in plan.values_mut() {
        work.items.sort_by(|one, other| one.key.cmp(&other.key));
    }
    for item in processed {
        let key = ItemKey::of(item);
        if !desired.contains(&place(&key)) {
            plan.entry(key.object).or_default().stale.push(item.clone());
        }
    }
    plan
}

/// Returns the identity of an item without its version.
fn place(key: &ItemKey) -> (ObjectId, String, String) {
    (key.object.clone(), key.tenant.clone(), key.origin.clone())
}

/// Returns the items that the status must list before anything is written: those of the status, and
/// those of the plan. An item that is missing there would be forgotten by a crash after its write.
///
/// Returns `None` if the status lists all of them.
pub(crate) fn announced(plan: &Plan, processed: &[ProcessedItem]) -> Option<Vec<ProcessedItem>> {
    let known: BTreeSet<_> = processed.iter().map(|item| place(&ItemKey::of(item))).collect();
    let new = plan.values().flat_map(|work| &work.items);
    let new: Vec<_> = new.filter(|item| !known.contains(&place(&item.key))).collect();
    if new.is_empty() {
        return None;
    }
    let new = new.into_iter().map(|item| {
        let mut processed = item.key.to_processed();
        "not applied yet".clone_into(&mut processed.status.message);
        processed
    });
    Some(sorted(processed.iter().cloned().chain(new).collect()))
}

/// Sorts the items of a status.
pub(crate) fn sorted(mut items: Vec<ProcessedItem>) -> Vec<ProcessedItem> {
    items.sort_by_cached_key(ItemKey::of);
    items
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    fn key(name: &str, origin: usize, version: &str) -> ItemKey {
        let object = ObjectId {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "oil".to_owned(),
            name: name.to_owned(),
        };
        ItemKey {
            object,
            tenant: "oil".to_owned(),
            origin: format!("0/raw-{origin}"),
            version: version.to_owned(),
        }
    }

    fn item(name: &str, origin: usize) -> Item {
        Item { key: key(name, origin, "v1"), object: Map::new() }
    }

    #[test]
    fn object_that_moves_to_another_origin_is_not_pruned() {
        let processed = [key("a", 0, "v1").to_processed(), key("b", 1, "v1").to_processed()];
        let plan = plan(vec![item("b", 0)], &processed);
        let works: Vec<_> =
            plan.iter().map(|(id, work)| (id.name.as_str(), work.items.len(), work.stale.len())).collect();
        assert_eq!(works, [("a", 0, 1), ("b", 1, 1)]);
    }

    #[test]
    fn another_version_is_the_same_item() {
        let plan = plan(vec![item("a", 0)], &[key("a", 0, "v1beta1").to_processed()]);
        assert_eq!(plan.values().next().map(|work| (work.items.len(), work.stale.len())), Some((1, 0)));
        assert_eq!(announced(&plan, &[key("a", 0, "v1beta1").to_processed()]), None);
    }

    proptest! {
        /// Each item of the status is either desired or stale, and each desired item is planned once.
        #[test]
        fn plan_matches_a_slow_reference(
            desired in prop::collection::btree_set((0_usize..4, 0_usize..4), 0..10),
            before in prop::collection::btree_set((0_usize..4, 0_usize..4), 0..10),
        ) {
            let name = |number: usize| format!("n{number}");
            let items: Vec<_> = desired.iter().map(|(object, origin)| item(&name(*object), *origin)).collect();
            let processed: Vec<_> =
                before.iter().map(|(object, origin)| key(&name(*object), *origin, "v1").to_processed()).collect();
            let plan = plan(items.clone(), &processed);
            let stale: BTreeSet<_> = before.difference(&desired).copied().collect();
            let planned: usize = plan.values().map(|work| work.items.len()).sum();
            let planned_stale: Vec<_> = plan.values().flat_map(|work| &work.stale).map(ItemKey::of).collect();
            prop_assert_eq!(planned, desired.len());
            prop_assert_eq!(planned_stale.len(), stale.len());
            for (object, origin) in stale {
                prop_assert!(planned_stale.contains(&key(&name(object), origin, "v1")));
            }
            let announced = announced(&plan, &processed).unwrap_or_else(|| processed.clone());
            prop_assert_eq!(announced.len(), before.union(&desired).count());
        }
    }
}
