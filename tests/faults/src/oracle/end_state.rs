//! Normalizes objects, so that the end states of different runs can be compared.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value, json};

use super::TOUCHED_ANNOTATION;
use crate::{
    observer::{Id, State},
    token::Token,
};

/// Fields whose values differ in each run.
const VOLATILE_FIELDS: [&str; 18] = [
    "uid",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "resourceVersion",
    "generation",
    "observedGeneration",
    "managedFields",
    "selfLink",
    "nodeName",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "clusterIP",
    "clusterIPs",
    "lastProbeTime",
    "serviceAccount",
    "serviceAccountName",
];
/// Kinds whose status Kubernetes controllers update asynchronously.
const FOREIGN_STATUS: [&str; 4] = ["Deployment", "PodDisruptionBudget", "ResourceQuota", "Service"];

/// End state of a run: normalized objects by kind and name.
pub type EndState = BTreeMap<String, Vec<Value>>;

/// Normalizes the objects of a run.
pub fn end_state(token: Token, state: &State) -> EndState {
    let normalizer = Normalizer::new(token, state);
    let mut end = EndState::new();
    for (id, object) in state {
        let name = normalizer.text(&format!("{} {}/{}", id.kind, id.namespace, id.name));
        end.entry(name).or_default().push(object_of(&normalizer, id, object));
    }
    for same in end.values_mut() {
        same.sort_by_key(Value::to_string);
    }
    end
}

/// Returns the normalized name of an object. Pods of one owner share a name.
pub fn name(token: Token, id: &Id) -> String {
    Normalizer::new(token, &State::new()).text(&format!("{} {}/{}", id.kind, id.namespace, id.name))
}

/// Describes the first difference of each object between two end states, or returns `None` if they are
/// equal.
pub fn difference(wanted: &EndState, seen: &EndState) -> Option<String> {
    let changed = wanted.iter().filter_map(|(name, objects)| {
        let there = seen.get(name).map_or(&[][..], Vec::as_slice);
        if there.is_empty() {
            return Some(format!("{name} is missing"));
        }
        if there.len() != objects.len() {
            return Some(format!("{name}: {} exist instead of {}", there.len(), objects.len()));
        }
        let pair = objects.iter().zip(there).find(|(wanted, there)| wanted != there)?;
        Some(format!("{name}{}", differs(pair.0, pair.1)))
    });
    let surplus = seen.keys().filter(|name| !wanted.contains_key(*name));
    let all: Vec<_> = changed.chain(surplus.map(|name| format!("{name} should not exist"))).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Describes the first difference between two values.
fn differs(wanted: &Value, there: &Value) -> String {
    if let (Some(a), Some(b)) = (wanted.as_object(), there.as_object()) {
        let keys = a.keys().chain(b.keys());
        for key in keys {
            let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
            if a != b {
                return format!(".{key}{}", differs(a, b));
            }
        }
    }
    if let (Some(a), Some(b)) = (wanted.as_array(), there.as_array())
        && a.len() == b.len()
        && let Some((place, (a, b))) = a.iter().zip(b).enumerate().find(|(_, (a, b))| a != b)
    {
        return format!("[{place}]{}", differs(a, b));
    }
    format!(" is {there} instead of {wanted}")
}

/// Replaces names and values that differ in each run.
struct Normalizer {
    token: Token,
    /// Generated Pod names, longest first.
    pods: Vec<String>,
    hashes: Vec<String>,
}

/// Patterns of texts that differ in each run, with their replacements.
static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"-pod-\d+\b", "-pod-#"),
        (r"\b(10[-.]244|127[.]\d+)[-.]\d+[-.]\d+\b", "ADDRESS"),
        (r"\b74\d{17}\b", "SYSTEM"),
    ];
    patterns.into_iter().filter_map(|(text, name)| Some((Regex::new(text).ok()?, name))).collect()
});

impl Normalizer {
    fn new(token: Token, state: &State) -> Self {
        let hash =
            |object: &Value| Some(object.pointer("/metadata/labels/pod-template-hash")?.as_str()?.to_owned());
        let mut pods = Vec::new();
        let mut hashes = Vec::new();
        for (id, object) in state.iter().filter(|(id, _)| id.kind == "Pod") {
            if let Some(hash) = hash(object) {
                pods.push(id.name.clone());
                hashes.push(hash);
            }
        }
        pods.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Self { token, pods, hashes }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for pod in &self.pods {
            text = text.replace(pod.as_str(), "POD");
        }
        for hash in &self.hashes {
            text = text.replace(hash.as_str(), "HASH");
        }
        for (pattern, name) in PATTERNS.iter() {
            text = pattern.replace_all(&text, *name).into_owned();
        }
        self.token.erase(&text)
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => json!(self.text(text)),
            Value::Array(items) => {
                let mut items: Vec<_> = items.iter().map(|item| self.value(item)).collect();
                if items.iter().all(Value::is_string) {
                    items.sort_by_key(Value::to_string);
                }
                Value::Array(items)
            }
            Value::Object(fields) => Value::Object(self.fields(fields)),
            other => other.clone(),
        }
    }

    fn fields(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        let lasting = fields.iter().filter(|(name, _)| {
            let is_time = name.ends_with("Time") || name.ends_with("Timestamp");
            !is_time && !VOLATILE_FIELDS.contains(&name.as_str()) && name.as_str() != TOUCHED_ANNOTATION
        });
        lasting.map(|(name, value)| (self.text(name), self.value(value))).collect()
    }
}

fn object_of(normalizer: &Normalizer, id: &Id, object: &Value) -> Value {
    let mut left = normalizer.value(object);
    if let Some(metadata) = left.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("name");
        // Whether an object is terminating matters; since when does not.
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            metadata.insert("isDeleting".to_owned(), json!(true));
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("deployment.kubernetes.io/revision");
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    if FOREIGN_STATUS.contains(&id.kind)
        && let Some(fields) = left.as_object_mut()
    {
        fields.remove("status");
    }
    match id.kind {
        "Pod" => shorten(&mut left),
        "Secret" => hide_content(&mut left),
        "Lease" => remove_holder(&mut left),
        _ => {}
    }
    left
}

/// Keeps only the keys of a Secret, whose values are random.
fn hide_content(secret: &mut Value) {
    let content = secret.get_mut("data").and_then(Value::as_object_mut);
    content.into_iter().flat_map(Map::values_mut).for_each(|value| *value = json!("SECRET"));
}

/// Removes from a Lease what its holder writes.
fn remove_holder(lease: &mut Value) {
    if let Some(fields) = lease.as_object_mut() {
        fields.remove("spec");
    }
    if let Some(metadata) = lease.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("annotations");
    }
}

/// Reduces a Pod to its managed fields.
fn shorten(pod: &mut Value) {
    let phase = pod.pointer("/status/phase").cloned().unwrap_or_default();
    if let Some(fields) = pod.as_object_mut() {
        fields.insert("status".to_owned(), json!({ "phase": phase }));
    }
    let token = |name: &Value| name.as_str().is_some_and(|name| name.starts_with("kube-api-access"));
    if let Some(volumes) = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| !volume.get("name").is_some_and(token));
    }
    for list in ["/spec/initContainers", "/spec/containers"] {
        let containers = pod.pointer_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) {
                mounts.retain(|mount| !mount.get("name").is_some_and(token));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn state(token: Token, pod: &str, phase: &str) -> State {
        let id = Id { kind: "Pod", namespace: "home".to_owned(), name: format!("{token}-pod-{pod}") };
        let object = json!({
            "metadata": {
                "name": id.name, "uid": "8a0f5e0e-7b0a-4d2f-8f5e-0123456789ab", "resourceVersion": "5",
                "annotations": { TOUCHED_ANNOTATION: "now" },
                "ownerReferences": [{ "kind": "PodSet", "name": token.to_string(), "uid": "x" }],
            },
            "spec": { "nodeName": "node-1", "volumes": [{ "name": "kube-api-access-x7" }] },
            "status": { "phase": phase, "podIP": "10.0.0.7" },
        });
        [(id, Arc::new(object))].into()
    }

    #[test]
    fn equal_end_states_of_two_runs_are_equal() {
        let (one, other) = (Token::nth(1), Token::nth(2));
        let wanted = end_state(one, &state(one, "0", "Running"));
        assert_eq!(difference(&wanted, &end_state(other, &state(other, "4", "Running"))), None);
    }

    #[test]
    fn difference_contains_the_field_path() {
        let (one, other) = (Token::nth(1), Token::nth(2));
        let wanted = end_state(one, &state(one, "0", "Running"));
        let difference_text = difference(&wanted, &end_state(other, &state(other, "0", "Failed"))).unwrap();
        assert_eq!(difference_text, r#"Pod home/RUN-pod-#.status.phase is "Failed" instead of "Running""#);
        assert!(difference(&wanted, &EndState::new()).unwrap().ends_with("is missing"));
        assert!(difference(&EndState::new(), &wanted).unwrap().ends_with("should not exist"));
    }

    #[test]
    fn terminating_object_differs_from_active_one() {
        let token = Token::nth(1);
        let before = state(token, "0", "Running");
        let mut leaving = before.clone();
        for object in leaving.values_mut() {
            let mut changed = (**object).clone();
            changed["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            *object = Arc::new(changed);
        }
        assert!(difference(&end_state(token, &before), &end_state(token, &leaving)).is_some());
    }
}
