//! What must hold at every instant of a run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::observe::{Change, Id, State, Story};

/// On a namespace: the NamespacePlus that it belongs to.
const PLUS_OWNER: &str = "/metadata/annotations/mygroup.my.domain~1owner";

/// What was broken, and when.
pub fn violations(story: &Story) -> Vec<String> {
    let mut instant = Instant::default();
    let mut broken = Vec::new();
    // What a list tells may have been so for a while.
    for change in story.changes.iter().filter(|change| change.is_listed && !change.is_gone) {
        instant.learn(change);
    }
    for change in story.in_order() {
        let found = instant.take_in(&change);
        broken.extend(found.into_iter().map(|what| format!("{what} (at version {})", change.version)));
    }
    broken
}

/// The state after some changes, and what came before it.
#[derive(Default)]
struct Instant {
    state: State,
    /// The most pods that each owner, by UID, was ever asked for.
    most: BTreeMap<String, i64>,
    /// The Tenants, by UID, that each namespace ever belonged to.
    tenants: BTreeMap<String, BTreeSet<String>>,
}

impl Instant {
    fn take_in(&mut self, change: &Change) -> Vec<String> {
        let before = self.state.get(&change.id).cloned();
        if change.is_gone {
            self.state.remove(&change.id);
            return Vec::new();
        }
        self.state.insert(change.id.clone(), change.object.clone());
        let object = &change.object;
        self.learn(change);
        match change.id.kind {
            "Pod" => return self.pods(object).into_iter().collect(),
            "Deployment" => return self.replicas(change).into_iter().collect(),
            "Namespace" => return self.namespace(&change.id, before.as_deref(), object),
            _ => {}
        }
        self.stray(change).into_iter().collect()
    }

    /// Takes in what is asked for, and whose a namespace is.
    fn learn(&mut self, change: &Change) {
        match change.id.kind {
            "PodSet" => self.asks(&change.object, "/spec/replicas", 1),
            "Memcached" => self.asks(&change.object, "/spec/size", 1),
            "Namespace" => {
                let of = tenants(&change.object);
                self.tenants.entry(change.id.name.clone()).or_default().extend(of);
            }
            _ => {}
        }
    }

    fn asks(&mut self, object: &Value, field: &str, default: i64) {
        let asked = object.pointer(field).and_then(Value::as_i64).unwrap_or(default);
        let most = self.most.entry(uid(object).to_owned()).or_default();
        *most = asked.max(*most);
    }

    /// Never more live pods than a PodSet was asked for.
    fn pods(&self, pod: &Value) -> Option<String> {
        let owner = pod.pointer("/metadata/ownerReferences/0")?;
        let of = text(owner, "/uid");
        let most = *self.most.get(of).filter(|_| text(owner, "/kind") == "PodSet")?;
        let is_live = |object: &Value| {
            let ended = ["Succeeded", "Failed"].contains(&text(object, "/status/phase"));
            text(object, "/metadata/ownerReferences/0/uid") == of
                && object.pointer("/metadata/deletionTimestamp").is_none()
                && !ended
        };
        let live = self.state.iter().filter(|(id, object)| id.kind == "Pod" && is_live(object)).count();
        let is_surplus = i64::try_from(live).is_ok_and(|live| live > most);
        is_surplus.then(|| format!("{live} pods live of a PodSet that was asked for {most} at most"))
    }

    /// Never a Deployment of more replicas than the Memcached was asked for, unless somebody else has asked.
    fn replicas(&self, change: &Change) -> Option<String> {
        let most = *self.most.get(text(&change.object, "/metadata/ownerReferences/0/uid"))?;
        let replicas = change.object.pointer("/spec/replicas")?.as_i64()?;
        let is_first = change.object.pointer("/metadata/generation").and_then(Value::as_i64) == Some(1);
        (replicas > most && is_first)
            .then(|| format!("a Deployment of {replicas} for a Memcached that was asked for {most} at most"))
    }

    /// Never a namespace with two owners, and never one that goes from one NamespacePlus to another that is there.
    fn namespace(&self, id: &Id, before: Option<&Value>, namespace: &Value) -> Vec<String> {
        let mut broken = Vec::new();
        let tenants = tenants(namespace);
        if tenants.len() > 1 {
            broken.push(format!("namespace {} belongs to {} Tenants", id.name, tenants.len()));
        }
        let (old, new) = (before.map_or("", |before| text(before, PLUS_OWNER)), text(namespace, PLUS_OWNER));
        let holds = |object: &Value| old.ends_with(uid(object));
        let is_there =
            self.state.iter().any(|(id, object)| id.kind == "NamespacePlus" && holds(object.as_ref()));
        if !old.is_empty() && !new.is_empty() && old != new && is_there {
            broken.push(format!("namespace {} went from {old}, which is there, to {new}", id.name));
        }
        broken
    }

    /// Never an object of a Tenant in a namespace that is not the Tenant's.
    fn stray(&self, change: &Change) -> Option<String> {
        let owner = change.object.pointer("/metadata/ownerReferences/0")?;
        let owner = (text(owner, "/kind") == "Tenant").then(|| text(owner, "/uid"))?;
        let tenants = self.tenants.get(&change.id.namespace);
        let is_stray = !tenants.is_some_and(|tenants| tenants.contains(owner));
        is_stray.then(|| {
            let Id { kind, namespace, name } = &change.id;
            format!("{kind} {name} of a Tenant is in namespace {namespace}, which never was the Tenant's")
        })
    }
}

/// The UIDs of the Tenants that a namespace belongs to.
fn tenants(namespace: &Value) -> BTreeSet<String> {
    let owners = namespace.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let tenants = owners.into_iter().flatten().filter(|owner| text(owner, "/kind") == "Tenant");
    tenants.map(|owner| text(owner, "/uid").to_owned()).collect()
}

fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn change(version: u64, kind: &'static str, place: (&str, &str), object: Value) -> Change {
        let id = Id { kind, namespace: place.0.to_owned(), name: place.1.to_owned() };
        Change { version, id, object: Arc::new(object), is_gone: false, is_listed: false }
    }

    fn pod(version: u64, name: &str, phase: &str) -> Change {
        let owner = json!({ "kind": "PodSet", "uid": "s" });
        let object = json!({
            "metadata": { "uid": name, "ownerReferences": [owner] }, "status": { "phase": phase },
        });
        change(version, "Pod", ("n", name), object)
    }

    fn broken(changes: Vec<Change>) -> Vec<String> {
        violations(&Story { changes, ..Story::default() })
    }

    #[test]
    fn a_pod_too_many_is_seen_in_the_instant_in_which_it_lives() {
        let set = |version, replicas| {
            let object = json!({ "metadata": { "uid": "s" }, "spec": { "replicas": replicas } });
            change(version, "PodSet", ("n", "set"), object)
        };
        let (one, two) = (pod(2, "one", "Running"), pod(3, "two", "Running"));
        // They are told in another order than they happened in.
        assert_eq!(broken(vec![two.clone(), one.clone(), set(1, 2)]), [] as [String; 0]);
        assert_eq!(broken(vec![set(1, 1), pod(2, "one", "Failed"), two.clone()]), [] as [String; 0]);
        let gone = Change { is_gone: true, version: 4, ..two.clone() };
        let seen = broken(vec![set(1, 1), one, two, gone]);
        assert!(matches!(seen.as_slice(), [one] if one.contains("2 pods live")), "{seen:?}");
    }

    #[test]
    fn what_a_list_tells_may_have_been_asked_for_before() {
        let object = json!({ "metadata": { "uid": "s" }, "spec": { "replicas": 2 } });
        let set = change(9, "PodSet", ("n", "set"), object);
        let set = Change { is_listed: true, ..set };
        assert_eq!(broken(vec![pod(2, "one", "Running"), pod(3, "two", "Running"), set]), [] as [String; 0]);
    }

    #[test]
    fn a_namespace_of_two_tenants_and_an_object_outside_are_seen() {
        let owner = |uid: &str| json!({ "kind": "Tenant", "uid": uid });
        let namespace = |version, owners: Value| {
            change(version, "Namespace", ("", "a"), json!({ "metadata": { "ownerReferences": owners } }))
        };
        let child = |version, namespace: &str, tenant: &str| {
            let object = json!({ "metadata": { "ownerReferences": [owner(tenant)] } });
            change(version, "LimitRange", (namespace, "capsule-x-0"), object)
        };
        assert_eq!(broken(vec![namespace(1, json!([owner("t")])), child(2, "a", "t")]), [] as [String; 0]);
        assert_eq!(broken(vec![namespace(1, json!([owner("t"), owner("u")]))]).len(), 1);
        assert_eq!(broken(vec![namespace(1, json!([owner("t")])), child(2, "b", "t")]).len(), 1);
        assert_eq!(broken(vec![namespace(1, json!([owner("t")])), child(2, "a", "u")]).len(), 1);
    }

    #[test]
    fn a_namespace_is_not_taken_from_one_that_is_there() {
        let plus =
            |uid: &str| change(1, "NamespacePlus", ("home", uid), json!({ "metadata": { "uid": uid } }));
        let namespace = |version, owner: &str| {
            let object = json!({ "metadata": { "annotations": { "mygroup.my.domain/owner": owner } } });
            change(version, "Namespace", ("", "a"), object)
        };
        let taken = [namespace(2, "home/a/first"), namespace(3, "home/a/second")];
        assert_eq!(broken([vec![plus("first")], taken.to_vec()].concat()).len(), 1);
        assert_eq!(broken(taken.to_vec()), [] as [String; 0], "the first is not there any more");
    }
}
