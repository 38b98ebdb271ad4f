//! Invariants that must hold at any time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::observer::{Change, History, Id, State};

/// Annotation of a namespace with its NamespacePlus.
const NAMESPACE_OWNER: &str = "/metadata/annotations/mygroup.my.domain~1owner";

/// Returns violations with their resource versions.
pub fn violations(history: &History) -> Vec<String> {
    let mut instant = Instant::default();
    let mut violated = Vec::new();
    // A list may report a state that existed for a while.
    for change in history.changes.iter().filter(|change| change.is_listed && !change.is_gone) {
        instant.record_request(change);
    }
    for change in history.in_order() {
        let found = instant.apply(&change);
        violated.extend(found.into_iter().map(|what| format!("{what} (at version {})", change.version)));
    }
    violated
}

/// The state after some changes.
#[derive(Default)]
struct Instant {
    state: State,
    /// Highest number of Pods requested by each owner, by UID.
    most: BTreeMap<String, i64>,
    /// UIDs of the Tenants that each namespace belonged to.
    tenants: BTreeMap<String, BTreeSet<String>>,
}

impl Instant {
    fn apply(&mut self, change: &Change) -> Vec<String> {
        let before = self.state.get(&change.id).cloned();
        if change.is_gone {
            self.state.remove(&change.id);
            return Vec::new();
        }
        self.state.insert(change.id.clone(), change.object.clone());
        let object = &change.object;
        self.record_request(change);
        match change.id.kind {
            "Pod" => return self.pods(object).into_iter().collect(),
            "Deployment" => return self.replicas(change).into_iter().collect(),
            "Namespace" => return self.namespace(&change.id, before.as_deref(), object),
            _ => {}
        }
        self.stray(change).into_iter().collect()
    }

    /// Records requested replicas and namespace owners.
    fn record_request(&mut self, change: &Change) {
        match change.id.kind {
            "PodSet" => self.record_replicas(&change.object, "/spec/replicas", 1),
            "Memcached" => self.record_replicas(&change.object, "/spec/size", 1),
            "Namespace" => {
                let of = tenants(&change.object);
                self.tenants.entry(change.id.name.clone()).or_default().extend(of);
            }
            _ => {}
        }
    }

    fn record_replicas(&mut self, object: &Value, field: &str, default: i64) {
        let requested = object.pointer(field).and_then(Value::as_i64).unwrap_or(default);
        let most = self.most.entry(uid(object).to_owned()).or_default();
        *most = requested.max(*most);
    }

    /// Checks that a PodSet never has more live Pods than requested.
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
        is_surplus.then(|| format!("{live} live Pods of a PodSet with at most {most} replicas"))
    }

    /// Checks that a Deployment never has more replicas than the Memcached requested, unless a
    /// third party scaled it.
    fn replicas(&self, change: &Change) -> Option<String> {
        let most = *self.most.get(text(&change.object, "/metadata/ownerReferences/0/uid"))?;
        let replicas = change.object.pointer("/spec/replicas")?.as_i64()?;
        let is_first = change.object.pointer("/metadata/generation").and_then(Value::as_i64) == Some(1);
        (replicas > most && is_first).then(|| {
            format!("a Deployment with {replicas} replicas for a Memcached with a size of at most {most}")
        })
    }

    /// Checks that a namespace never has two owners and is never taken from an existing
    /// NamespacePlus.
    fn namespace(&self, id: &Id, before: Option<&Value>, namespace: &Value) -> Vec<String> {
        let mut violated = Vec::new();
        let tenants = tenants(namespace);
        if tenants.len() > 1 {
            violated.push(format!("namespace {} belongs to {} Tenants", id.name, tenants.len()));
        }
        let (old, new) =
            (before.map_or("", |before| text(before, NAMESPACE_OWNER)), text(namespace, NAMESPACE_OWNER));
        let holds = |object: &Value| old.ends_with(uid(object));
        let is_there =
            self.state.iter().any(|(id, object)| id.kind == "NamespacePlus" && holds(object.as_ref()));
        if !old.is_empty() && !new.is_empty() && old != new && is_there {
            violated
                .push(format!("namespace {} changed its owner from {old}, which exists, to {new}", id.name));
        }
        violated
    }

    /// Checks that objects of a Tenant exist only in its namespaces.
    fn stray(&self, change: &Change) -> Option<String> {
        let owner = change.object.pointer("/metadata/ownerReferences/0")?;
        let owner = (text(owner, "/kind") == "Tenant").then(|| text(owner, "/uid"))?;
        let tenants = self.tenants.get(&change.id.namespace);
        let is_stray = !tenants.is_some_and(|tenants| tenants.contains(owner));
        is_stray.then(|| {
            let Id { kind, namespace, name } = &change.id;
            format!(
                "{kind} {name} of a Tenant is in namespace {namespace}, which never belonged to the Tenant"
            )
        })
    }
}

/// Returns the UIDs of the Tenants of a namespace.
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

    fn violated(changes: Vec<Change>) -> Vec<String> {
        violations(&History { changes, ..History::default() })
    }

    #[test]
    fn detects_surplus_pod_while_it_is_live() {
        let set = |version, replicas| {
            let object = json!({ "metadata": { "uid": "s" }, "spec": { "replicas": replicas } });
            change(version, "PodSet", ("n", "set"), object)
        };
        let (one, two) = (pod(2, "one", "Running"), pod(3, "two", "Running"));
        // The changes are received in another order.
        assert_eq!(violated(vec![two.clone(), one.clone(), set(1, 2)]), [] as [String; 0]);
        assert_eq!(violated(vec![set(1, 1), pod(2, "one", "Failed"), two.clone()]), [] as [String; 0]);
        let gone = Change { is_gone: true, version: 4, ..two.clone() };
        let seen = violated(vec![set(1, 1), one, two, gone]);
        assert!(matches!(seen.as_slice(), [one] if one.contains("2 live Pods")), "{seen:?}");
    }

    #[test]
    fn listed_pods_may_have_been_requested_before() {
        let object = json!({ "metadata": { "uid": "s" }, "spec": { "replicas": 2 } });
        let set = change(9, "PodSet", ("n", "set"), object);
        let set = Change { is_listed: true, ..set };
        assert_eq!(
            violated(vec![pod(2, "one", "Running"), pod(3, "two", "Running"), set]),
            [] as [String; 0]
        );
    }

    #[test]
    fn detects_namespace_of_two_tenants_and_stray_objects() {
        let owner = |uid: &str| json!({ "kind": "Tenant", "uid": uid });
        let namespace = |version, owners: Value| {
            change(version, "Namespace", ("", "a"), json!({ "metadata": { "ownerReferences": owners } }))
        };
        let child = |version, namespace: &str, tenant: &str| {
            let object = json!({ "metadata": { "ownerReferences": [owner(tenant)] } });
            change(version, "LimitRange", (namespace, "capsule-x-0"), object)
        };
        assert_eq!(violated(vec![namespace(1, json!([owner("t")])), child(2, "a", "t")]), [] as [String; 0]);
        assert_eq!(violated(vec![namespace(1, json!([owner("t"), owner("u")]))]).len(), 1);
        assert_eq!(violated(vec![namespace(1, json!([owner("t")])), child(2, "b", "t")]).len(), 1);
        assert_eq!(violated(vec![namespace(1, json!([owner("t")])), child(2, "a", "u")]).len(), 1);
    }

    #[test]
    fn detects_namespace_taken_from_existing_owner() {
        let plus =
            |uid: &str| change(1, "NamespacePlus", ("home", uid), json!({ "metadata": { "uid": uid } }));
        let namespace = |version, owner: &str| {
            let object = json!({ "metadata": { "annotations": { "mygroup.my.domain/owner": owner } } });
            change(version, "Namespace", ("", "a"), object)
        };
        let taken = [namespace(2, "home/a/first"), namespace(3, "home/a/second")];
        assert_eq!(violated([vec![plus("first")], taken.to_vec()].concat()).len(), 1);
        assert_eq!(violated(taken.to_vec()), [] as [String; 0], "the first no longer exists");
    }
}
