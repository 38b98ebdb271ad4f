//! What belongs to an object, and what belongs to that.
//!
//! An owner reference says so where it can. Where it cannot, for it never leaves its namespace, the marks of
//! NamespacePlus and of the configuration of Tenants say so (docs/decisions/0005).

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use kube::{
    Api, Client, Discovery, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    discovery::Scope,
};
use manager::CONTROLLERS;
use namespaceplus::{MADE_FOR_KEY, OWNER_KEY};
use operator_core::error::chain;
use serde::Serialize;
use tenant::api::names::CONFIGURATION_ANNOTATION;

use crate::{
    kinds::{self, Kind, list},
    object::state,
};

/// An object among those that belong to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Node {
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// How it is, in a few words.
    pub(crate) state: String,
    /// What belongs to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) children: Vec<Self>,
}

/// An object and all that belongs to it.
pub(crate) struct Family {
    pub(crate) root: Node,
    /// What could not be looked at, and why.
    pub(crate) hidden: Vec<String>,
}

/// What Kubernetes makes of our children. It is in no rule of ours.
const GRANDCHILDREN: [(&str, &str); 2] = [("apps", "replicasets"), ("", "pods")];

/// Finds all that belongs to an object.
///
/// # Errors
/// When the API server does not say which kinds there are.
pub(crate) async fn find(client: &Client, kind: &Kind, object: DynamicObject) -> Result<Family> {
    let (mut hidden, mut found) = (Vec::new(), Vec::new());
    let (cluster_wide, within): (Vec<_>, Vec<_>) =
        resources(client, kind).await?.into_iter().partition(|(_, scope)| *scope == Scope::Cluster);
    for (resource, _) in &cluster_wide {
        let api = Api::all_with(client.clone(), resource);
        gather(&api, resource, "", &mut found, &mut hidden).await;
    }
    found.retain(|candidate| belongs(candidate, &object));
    let namespaces = found.iter().filter(|candidate| is(candidate, "Namespace")).map(ResourceExt::name_any);
    let namespaces: BTreeSet<_> = object.namespace().into_iter().chain(namespaces).collect();
    for namespace in &namespaces {
        for (resource, _) in &within {
            let api = Api::namespaced_with(client.clone(), namespace, resource);
            gather(&api, resource, namespace, &mut found, &mut hidden).await;
        }
    }
    let object = typed(object, &kind.resource());
    Ok(Family { root: node(&object, &found), hidden })
}

/// The kinds of which the kind's controllers make objects, as the API server serves them.
async fn resources(client: &Client, kind: &Kind) -> Result<Vec<(ApiResource, Scope)>> {
    let made = made_by(kind);
    let groups: Vec<_> = made.iter().map(|(group, _)| group.as_str()).collect();
    let known = Discovery::new(client.clone()).filter(&groups).run_aggregated().await;
    let known = known.context("cannot ask the API server which kinds there are")?;
    let all = known.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    let is_made = |resource: &ApiResource| made.contains(&(resource.group.clone(), resource.plural.clone()));
    Ok(all.filter(|(resource, _)| is_made(resource)).map(|(resource, can)| (resource, can.scope)).collect())
}

/// Group and plural of what the controllers of a kind's group may create, and of what becomes of it.
fn made_by(kind: &Kind) -> BTreeSet<(String, String)> {
    let group = &kind.definition.spec.group;
    let of_group = CONTROLLERS
        .iter()
        .filter(|controller| kinds::of(&[**controller]).any(|kind| kind.definition.spec.group == *group));
    let rules =
        of_group.flat_map(|controller| (controller.rules)()).map(operator_core::rbac::Rule::into_policy);
    let creating = rules.filter(|rule| rule.verbs.iter().any(|verb| verb == "create"));
    let mut made: BTreeSet<_> =
        GRANDCHILDREN.map(|(group, plural)| (group.to_owned(), plural.to_owned())).into();
    for rule in creating {
        for group in rule.api_groups.iter().flatten() {
            let plurals = rule.resources.iter().flatten().filter(|plural| !plural.contains('/'));
            made.extend(plurals.map(|plural| (group.clone(), plural.clone())));
        }
    }
    made
}

/// Adds the objects of a kind, or why they could not be listed.
async fn gather(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
    namespace: &str,
    found: &mut Vec<DynamicObject>,
    hidden: &mut Vec<String>,
) {
    match list(api, &ListParams::default()).await {
        Ok(objects) => found.extend(objects.into_iter().map(|object| typed(object, resource))),
        Err(error) => {
            let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
            hidden.push(format!("{}{place}: {}", resource.plural, chain(&error)));
        }
    }
}

/// Objects in a list do not say of which kind they are.
pub(crate) fn typed(mut object: DynamicObject, resource: &ApiResource) -> DynamicObject {
    object.types =
        Some(kube::api::TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    object
}

/// The tree below an object. An object is shown below the first that it belongs to; a circle ends where it closes.
fn node(object: &DynamicObject, candidates: &[DynamicObject]) -> Node {
    let (own, others): (Vec<_>, Vec<_>) =
        candidates.iter().cloned().partition(|candidate| belongs(candidate, object));
    // What belongs to a namespace that is shown is shown there.
    let is_inside = |child: &DynamicObject| {
        own.iter().any(|other| is(other, "Namespace") && child.namespace() == other.metadata.name)
    };
    let (inside, direct): (Vec<_>, Vec<_>) = own.iter().cloned().partition(is_inside);
    let mut children: Vec<_> = direct
        .iter()
        .map(|child| {
            let mut below = node(child, &others);
            if is(child, "Namespace") {
                let here = inside.iter().filter(|inner| inner.namespace() == child.metadata.name);
                below.children.extend(here.map(|inner| node(inner, &others)));
                sort(&mut below.children);
            }
            below
        })
        .collect();
    sort(&mut children);
    Node {
        kind: kind_of(object),
        namespace: object.namespace(),
        name: object.name_any(),
        state: state(object),
        children,
    }
}

fn sort(nodes: &mut Vec<Node>) {
    nodes.sort_by(|a, b| (&a.kind, &a.namespace, &a.name).cmp(&(&b.kind, &b.namespace, &b.name)));
    nodes.dedup();
}

/// Whether one object belongs to another: by UID in an owner reference, or by a mark.
fn belongs(child: &DynamicObject, parent: &DynamicObject) -> bool {
    let Some(uid) = parent.uid() else { return false };
    if child.uid().as_ref() == Some(&uid) {
        return false;
    }
    let mark = |key: &str| child.annotations().get(key).map(String::as_str);
    let owned = child.owner_references().iter().any(|owner| owner.uid == uid);
    let place = format!("{}/{}/{uid}", parent.namespace().unwrap_or_default(), parent.name_any());
    let claimed = is(child, "Namespace") && mark(OWNER_KEY) == Some(&place);
    let made_for = is(parent, "Namespace")
        && child.namespace() == parent.metadata.name
        && mark(MADE_FOR_KEY) == parent.metadata.name.as_deref();
    let configured = is(parent, "CapsuleConfiguration")
        && mark(CONFIGURATION_ANNOTATION) == parent.metadata.name.as_deref();
    owned || claimed || made_for || configured
}

fn is(object: &DynamicObject, kind: &str) -> bool {
    object.types.as_ref().is_some_and(|types| types.kind == kind)
}

fn kind_of(object: &DynamicObject) -> String {
    object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{kinds, testing};

    fn object(
        kind: &str,
        namespace: Option<&str>,
        name: &str,
        owner: Option<&str>,
        marks: Value,
    ) -> DynamicObject {
        let owners: Vec<_> = owner
            .into_iter()
            .map(|uid| json!({ "apiVersion": "v1", "kind": "X", "name": "x", "uid": uid }))
            .collect();
        testing::object(json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": { "name": name, "namespace": namespace, "uid": format!("{kind}-{name}"), "ownerReferences": owners, "annotations": marks },
        }))
    }

    fn drawn(node: &Node, depth: usize) -> String {
        let own = format!("{}{} {}\n", "  ".repeat(depth), node.kind, node.name);
        own + &node.children.iter().map(|child| drawn(child, depth + 1)).collect::<String>()
    }

    #[test]
    fn owners_are_followed_down() {
        let root = object("Memcached", Some("a"), "cache", None, json!({}));
        let found = [
            object("Pod", Some("a"), "cache-1", Some("ReplicaSet-cache-x"), json!({})),
            object("ReplicaSet", Some("a"), "cache-x", Some("Deployment-cache"), json!({})),
            object("Deployment", Some("a"), "cache", Some("Memcached-cache"), json!({})),
            object("Pod", Some("a"), "other", Some("somebody"), json!({})),
        ];
        insta::assert_snapshot!(drawn(&node(&root, &found), 0), @r"
        Memcached cache
          Deployment cache
            ReplicaSet cache-x
              Pod cache-1
        ");
    }

    #[test]
    fn marks_are_followed_where_references_cannot_go() {
        let root = object("NamespacePlus", Some("teams"), "blue", None, json!({}));
        let found = [
            object("Namespace", None, "blue", None, json!({ OWNER_KEY: "teams/blue/NamespacePlus-blue" })),
            object("Namespace", None, "red", None, json!({ OWNER_KEY: "teams/blue/of-an-earlier-life" })),
            object("ResourceQuota", Some("blue"), "default-quota", None, json!({ MADE_FOR_KEY: "blue" })),
            object("ResourceQuota", Some("red"), "copied", None, json!({ MADE_FOR_KEY: "blue" })),
        ];
        insta::assert_snapshot!(drawn(&node(&root, &found), 0), @r"
        NamespacePlus blue
          Namespace blue
            ResourceQuota default-quota
        ");
    }

    #[test]
    fn what_a_tenant_has_in_its_namespaces_is_shown_there() {
        let root = object("Tenant", None, "oil", None, json!({}));
        let found = [
            object("Namespace", None, "oil-a", Some("Tenant-oil"), json!({})),
            object("Namespace", None, "oil-b", Some("Tenant-oil"), json!({})),
            object("LimitRange", Some("oil-a"), "capsule-oil-0", Some("Tenant-oil"), json!({})),
            object("LimitRange", Some("left"), "capsule-oil-1", Some("Tenant-oil"), json!({})),
        ];
        insta::assert_snapshot!(drawn(&node(&root, &found), 0), @r"
        Tenant oil
          LimitRange capsule-oil-1
          Namespace oil-a
            LimitRange capsule-oil-0
          Namespace oil-b
        ");
    }

    #[test]
    fn a_circle_of_owners_ends() {
        let root = object("A", None, "a", Some("B-b"), json!({}));
        let found = [object("B", None, "b", Some("A-a"), json!({})), root.clone()];
        assert_eq!(drawn(&node(&root, &found), 0), "A a\n  B b\n    A a\n");
    }

    #[test]
    fn what_is_looked_at_comes_from_the_rules() {
        let made = |kind: &str| made_by(&kinds::find(kind).unwrap());
        assert!(made("memcached").contains(&("apps".to_owned(), "deployments".to_owned())));
        assert!(made("tenant").contains(&("networking.k8s.io".to_owned(), "networkpolicies".to_owned())));
        assert!(!made("podset").contains(&(String::new(), "secrets".to_owned())));
    }
}
