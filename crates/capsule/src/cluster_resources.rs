//! Which kinds a rule of a GlobalProxySettings is for. Pure.

use crate::api::proxy_settings::{ClusterResource, ClusterResourceOperation};

/// Kind of objects, by which the API server serves them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// API group. Empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name.
    pub plural: String,
}

impl ClusterResource {
    /// Returns whether the rule is for a kind and an operation.
    pub fn is_for(&self, resource: &Resource, operation: ClusterResourceOperation) -> bool {
        self.allows(operation)
            && self.resources.iter().any(|plural| plural == "*" || *plural == resource.plural)
            && self.api_groups.iter().any(|pattern| is_of(pattern, resource))
    }

    /// Returns whether the rule allows an operation. Without operations it allows both.
    pub fn allows(&self, operation: ClusterResourceOperation) -> bool {
        let lists = self.operations.contains(&ClusterResourceOperation::List);
        self.operations.is_empty() || lists || self.operations.contains(&operation)
    }
}

/// Returns whether a kind is of a group, or of a version of a group.
fn is_of(pattern: &str, Resource { group, version, .. }: &Resource) -> bool {
    if pattern.contains('/') {
        matches(pattern, &format!("{group}/{version}"))
    } else {
        matches(pattern, group)
    }
}

/// Returns whether a text matches a pattern, in which an asterisk stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let (between, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = text.strip_prefix(first).and_then(|text| text.strip_suffix(last));
    // The first place of each part leaves most for the next ones.
    let found = between.split('*').try_fold(inner, |text, part| {
        let (_, after) = text?.split_once(part)?;
        Some(Some(after))
    });
    found.flatten().is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(value: Value) -> ClusterResource {
        let mut rule = json!({ "apiGroups": ["*"], "resources": ["*"], "selector": {} });
        rule.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(rule).unwrap()
    }

    fn nodes() -> Resource {
        Resource { group: String::new(), version: "v1".to_owned(), plural: "nodes".to_owned() }
    }

    fn snapshots() -> Resource {
        Resource {
            group: "snapshot.storage.k8s.io".to_owned(),
            version: "v1".to_owned(),
            plural: "volumesnapshotclasses".to_owned(),
        }
    }

    #[test]
    fn groups_are_patterns_and_kinds_are_names() {
        for (groups, of_nodes, of_snapshots) in [
            (json!(["*"]), true, true),
            (json!([""]), true, false),
            (json!(["/v1"]), true, false),
            (json!(["*/v1"]), true, true),
            (json!(["snapshot.*"]), false, true),
            (json!(["*.k8s.io"]), false, true),
            (json!(["s*storage*io"]), false, true),
            (json!(["snapshot.storage.k8s.io/v1"]), false, true),
            (json!(["snapshot.storage.k8s.io/v2"]), false, false),
            (json!(["storage*"]), false, false),
            (json!([]), false, false),
        ] {
            let rule = rule(json!({ "apiGroups": groups }));
            let is_for = |resource| rule.is_for(&resource, ClusterResourceOperation::List);
            assert_eq!((is_for(nodes()), is_for(snapshots())), (of_nodes, of_snapshots), "{groups}");
        }
        for (resources, expected) in
            [(json!(["nodes"]), true), (json!(["node"]), false), (json!(["n*"]), false)]
        {
            let rule = rule(json!({ "resources": resources }));
            assert_eq!(rule.is_for(&nodes(), ClusterResourceOperation::Get), expected, "{resources}");
        }
    }

    #[test]
    fn list_includes_get_and_nothing_is_both() {
        for (operations, lists, gets) in [
            (json!([]), true, true),
            (json!(["List"]), true, true),
            (json!(["Get"]), false, true),
            (json!(["List", "Get"]), true, true),
        ] {
            let rule = rule(json!({ "operations": operations }));
            let allowed =
                [ClusterResourceOperation::List, ClusterResourceOperation::Get].map(|one| rule.allows(one));
            assert_eq!(allowed, [lists, gets], "{operations}");
        }
        assert!(rule(json!({})).allows(ClusterResourceOperation::List));
    }
}
