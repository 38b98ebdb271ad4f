//! Counts how often objects are created and deleted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    observer::{Change, History},
    oracle::end_state,
    token::Token,
};

/// Number of created and deleted objects, by kind and name.
pub type Counts = BTreeMap<String, (usize, usize)>;

/// Counts the objects of a run. Objects of other controllers are left out.
pub fn counts(token: Token, history: &History) -> Counts {
    let mut made = BTreeMap::<String, BTreeSet<String>>::new();
    let mut deleted = BTreeMap::<String, BTreeSet<String>>::new();
    for change in history.changes.iter().filter(|change| !is_anothers(change)) {
        let name = end_state::name(token, &change.id);
        let uid = text(&change.object, "/metadata/uid").to_owned();
        if change.is_gone || change.object.pointer("/metadata/deletionTimestamp").is_some() {
            deleted.entry(name.clone()).or_default().insert(uid.clone());
        }
        made.entry(name).or_default().insert(uid);
    }
    let deleted = |name: &str| deleted.get(name).map_or(0, BTreeSet::len);
    made.iter().map(|(name, uids)| (name.clone(), (uids.len(), deleted(name)))).collect()
}

/// Returns objects that were created or deleted more often than in the baseline plus `allowed`.
pub fn surplus(wanted: &Counts, seen: &Counts, allowed: usize) -> Vec<String> {
    let mut surplus = Vec::new();
    for (name, (made, deleted)) in seen {
        let (may_be_made, may_be_deleted) = wanted.get(name).copied().unwrap_or_default();
        if *made > may_be_made + allowed {
            surplus.push(format!("{name} was created {made} times, {may_be_made} times without a fault"));
        }
        if *deleted > may_be_deleted + allowed {
            surplus
                .push(format!("{name} was deleted {deleted} times, {may_be_deleted} times without a fault"));
        }
    }
    surplus
}

/// Returns the highest number of deletions of one name. Pods of one owner share a name.
pub fn most_deletions(counts: &Counts) -> usize {
    counts.values().map(|(_, deleted)| *deleted).max().unwrap_or_default()
}

/// Returns objects that stay in the baseline but were deleted.
pub fn lost(token: Token, wanted: &Counts, history: &History) -> Vec<String> {
    let mut uids = BTreeMap::<String, Vec<String>>::new();
    let mut lost = Vec::new();
    for change in history.in_order().iter().filter(|change| !is_anothers(change)) {
        let name = end_state::name(token, &change.id);
        let Some((made, 0)) = wanted.get(&name) else { continue };
        let uid = text(&change.object, "/metadata/uid").to_owned();
        let known = uids.entry(name.clone()).or_default();
        if !known.contains(&uid) {
            known.push(uid.clone());
        }
        let is_lasting = known.iter().take(*made).any(|lasting| *lasting == uid);
        if is_lasting && change.is_gone {
            lost.push(format!("{name} was deleted, but exists in the run without a fault"));
        }
    }
    lost
}

/// Returns whether a Kubernetes controller creates the object: Pods of a Deployment, and default
/// objects of namespaces.
fn is_anothers(change: &Change) -> bool {
    let owner = text(&change.object, "/metadata/ownerReferences/0/kind");
    change.id.kind == "Pod" && owner == "ReplicaSet"
}

fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::observer::Id;

    fn change(name: &str, uid: &str, is_gone: bool) -> Change {
        let id = Id { kind: "Pod", namespace: "n".to_owned(), name: name.to_owned() };
        let object = Arc::new(json!({ "metadata": { "uid": uid } }));
        Change { version: 1, id, object, is_gone, is_listed: false }
    }

    fn history(changes: Vec<Change>) -> History {
        History { changes, ..History::default() }
    }

    #[test]
    fn counts_surplus_pod_that_was_deleted_again() {
        let token = Token::nth(1);
        let wanted = counts(token, &history(vec![change("r000001-pod-0", "a", false)]));
        let twice = [("a", false), ("b", false), ("b", true)];
        let twice = twice.map(|(uid, is_gone)| change("r000001-pod-0", uid, is_gone));
        let seen = counts(token, &history(twice.into()));
        assert_eq!(surplus(&wanted, &wanted, 0), [] as [String; 0]);
        assert_eq!(surplus(&wanted, &seen, 0).len(), 2, "created twice and deleted once");
        assert_eq!(surplus(&wanted, &seen, 1).len(), 0);
    }

    #[test]
    fn sums_deletions_of_pods_of_one_owner() {
        let token = Token::nth(1);
        let gone = |name: &str, uid| [change(name, uid, false), change(name, uid, true)];
        let all = [gone("r000001-pod-0", "a"), gone("r000001-pod-1", "b"), gone("r000001-web", "c")];
        assert_eq!(most_deletions(&counts(token, &history(all.concat()))), 2);
        assert_eq!(most_deletions(&counts(token, &history(vec![change("r000001-web", "d", false)]))), 0);
        assert_eq!(most_deletions(&Counts::new()), 0);
    }

    #[test]
    fn reports_deleted_object_despite_replacement() {
        let token = Token::nth(1);
        let first = change("r000001-pod-0", "a", false);
        let wanted = counts(token, &history(vec![first.clone()]));
        let second = [change("r000001-pod-0", "b", false), change("r000001-pod-0", "b", true)];
        let kept = history([vec![first.clone()], second.into()].concat());
        assert_eq!(lost(token, &wanted, &kept), [] as [String; 0], "the surplus object was deleted");
        let swapped =
            history(vec![first, change("r000001-pod-0", "a", true), change("r000001-pod-0", "b", false)]);
        assert_eq!(lost(token, &wanted, &swapped).len(), 1);
    }
}
