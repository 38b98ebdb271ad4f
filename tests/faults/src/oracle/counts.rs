//! How often each object was made and deleted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    observe::{Change, Story},
    oracle::normal,
    token::Token,
};

/// How many incarnations there were, and how many of them have gone or are going, by kind and name.
pub type Counts = BTreeMap<String, (usize, usize)>;

/// Counts the objects of a run. Those that another than our controllers makes and deletes are left out.
pub fn counts(token: Token, story: &Story) -> Counts {
    let mut made = BTreeMap::<String, BTreeSet<String>>::new();
    let mut deleted = BTreeMap::<String, BTreeSet<String>>::new();
    for change in story.changes.iter().filter(|change| !is_anothers(change)) {
        let name = normal::name(token, &change.id);
        let uid = text(&change.object, "/metadata/uid").to_owned();
        if change.is_gone || change.object.pointer("/metadata/deletionTimestamp").is_some() {
            deleted.entry(name.clone()).or_default().insert(uid.clone());
        }
        made.entry(name).or_default().insert(uid);
    }
    let deleted = |name: &str| deleted.get(name).map_or(0, BTreeSet::len);
    made.iter().map(|(name, uids)| (name.clone(), (uids.len(), deleted(name)))).collect()
}

/// What was made or deleted more often than in the reference, and more than is allowed.
pub fn surplus(wanted: &Counts, seen: &Counts, allowed: usize) -> Vec<String> {
    let mut surplus = Vec::new();
    for (name, (made, deleted)) in seen {
        let (may_be_made, may_be_deleted) = wanted.get(name).copied().unwrap_or_default();
        if *made > may_be_made + allowed {
            surplus.push(format!("{name} was made {made} times, {may_be_made} without a fault"));
        }
        if *deleted > may_be_deleted + allowed {
            surplus.push(format!("{name} was deleted {deleted} times, {may_be_deleted} without a fault"));
        }
    }
    surplus
}

/// How often what was deleted most often was deleted. Pods of one maker count together.
pub fn most_deletions(counts: &Counts) -> usize {
    counts.values().map(|(_, deleted)| *deleted).max().unwrap_or_default()
}

/// What was there from its making to the end in the reference, and was deleted.
pub fn lost(token: Token, wanted: &Counts, story: &Story) -> Vec<String> {
    let mut uids = BTreeMap::<String, Vec<String>>::new();
    let mut lost = Vec::new();
    for change in story.in_order().iter().filter(|change| !is_anothers(change)) {
        let name = normal::name(token, &change.id);
        let Some((made, 0)) = wanted.get(&name) else { continue };
        let uid = text(&change.object, "/metadata/uid").to_owned();
        let known = uids.entry(name.clone()).or_default();
        if !known.contains(&uid) {
            known.push(uid.clone());
        }
        let is_lasting = known.iter().take(*made).any(|lasting| *lasting == uid);
        if is_lasting && change.is_gone {
            lost.push(format!("{name} was deleted, which stays without a fault"));
        }
    }
    lost
}

/// Whether an object is made by a controller of Kubernetes: pods of a Deployment, and what each namespace has.
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
    use crate::observe::Id;

    fn change(name: &str, uid: &str, is_gone: bool) -> Change {
        let id = Id { kind: "Pod", namespace: "n".to_owned(), name: name.to_owned() };
        let object = Arc::new(json!({ "metadata": { "uid": uid } }));
        Change { version: 1, id, object, is_gone, is_listed: false }
    }

    fn story(changes: Vec<Change>) -> Story {
        Story { changes, ..Story::default() }
    }

    #[test]
    fn a_pod_too_many_is_seen_even_if_it_has_gone_again() {
        let token = Token::nth(1);
        let wanted = counts(token, &story(vec![change("r000001-pod-0", "a", false)]));
        let twice = [("a", false), ("b", false), ("b", true)];
        let twice = twice.map(|(uid, is_gone)| change("r000001-pod-0", uid, is_gone));
        let seen = counts(token, &story(twice.into()));
        assert_eq!(surplus(&wanted, &wanted, 0), [] as [String; 0]);
        assert_eq!(surplus(&wanted, &seen, 0).len(), 2, "made twice, and one deleted");
        assert_eq!(surplus(&wanted, &seen, 1).len(), 0);
    }

    #[test]
    fn deletions_of_pods_of_one_maker_count_together() {
        let token = Token::nth(1);
        let gone = |name: &str, uid| [change(name, uid, false), change(name, uid, true)];
        let all = [gone("r000001-pod-0", "a"), gone("r000001-pod-1", "b"), gone("r000001-web", "c")];
        assert_eq!(most_deletions(&counts(token, &story(all.concat()))), 2);
        assert_eq!(most_deletions(&counts(token, &story(vec![change("r000001-web", "d", false)]))), 0);
        assert_eq!(most_deletions(&Counts::new()), 0);
    }

    #[test]
    fn what_should_have_stayed_is_missed_even_if_there_is_another_instead() {
        let token = Token::nth(1);
        let first = change("r000001-pod-0", "a", false);
        let wanted = counts(token, &story(vec![first.clone()]));
        let second = [change("r000001-pod-0", "b", false), change("r000001-pod-0", "b", true)];
        let kept = story([vec![first.clone()], second.into()].concat());
        assert_eq!(lost(token, &wanted, &kept), [] as [String; 0], "another that came and went");
        let swapped =
            story(vec![first, change("r000001-pod-0", "a", true), change("r000001-pod-0", "b", false)]);
        assert_eq!(lost(token, &wanted, &swapped).len(), 1);
    }
}
