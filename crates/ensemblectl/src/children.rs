//! The objects that belong to an object, directly or indirectly.
//!
//! They are found by owner references. Where an owner reference is not possible, they are found by
//! the annotations of NamespacePlus and CapsuleConfiguration (docs/decisions/0005).

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use capsule::api::names::CONFIGURATION_ANNOTATION;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::{
    Api, Client, Discovery, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    discovery::Scope,
};
use manager::CONTROLLERS;
use namespaceplus::{MADE_FOR_KEY, OWNER_KEY};
use operator_core::error::chain;
use serde::Serialize;

use crate::{
    kinds::{self, Kind, list},
    object::state,
};

/// Node in the tree of an object and its children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Node {
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// Short state of the object.
    pub(crate) state: String,
    /// Objects that belong to the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) children: Vec<Self>,
}

/// Object with all objects that belong to it.
pub(crate) struct ObjectTree {
    pub(crate) root: Node,
    /// Errors of resources that could not be listed.
    pub(crate) errors: Vec<String>,
}

/// Resources that Kubernetes creates for our objects. The rules of controllers do not include them.
const CREATED_BY_KUBERNETES: [(&str, &str); 2] = [("apps", "replicasets"), ("", "pods")];

/// Finds all objects that belong to an object.
///
/// # Errors
/// Returns an error if discovery fails.
pub(crate) async fn find(client: &Client, kind: &Kind, object: DynamicObject) -> Result<ObjectTree> {
    let (mut errors, mut found) = (Vec::new(), Vec::new());
    let (cluster_scoped, namespace_scoped): (Vec<_>, Vec<_>) =
        discover(client, kind).await?.into_iter().partition(|(_, scope)| *scope == Scope::Cluster);
    for (resource, _) in &cluster_scoped {
        let api = Api::all_with(client.clone(), resource);
        append_list(&api, resource, "", &mut found, &mut errors).await;
    }
    found.retain(|candidate| is_child(candidate, &object));
    let namespaces = found.iter().filter(|candidate| is(candidate, "Namespace")).map(ResourceExt::name_any);
    let namespaces: BTreeSet<_> = object.namespace().into_iter().chain(namespaces).collect();
    for namespace in &namespaces {
        for (resource, _) in &namespace_scoped {
            let api = Api::namespaced_with(client.clone(), namespace, resource);
            append_list(&api, resource, namespace, &mut found, &mut errors).await;
        }
    }
    let object = with_type(object, &kind.resource());
    Ok(ObjectTree { root: node(&object, &found), errors })
}

/// Discovers the resources that the controllers of the kind create.
async fn discover(client: &Client, kind: &Kind) -> Result<Vec<(ApiResource, Scope)>> {
    let created = created_resources(kind);
    let groups: Vec<_> = created.iter().map(|(group, _)| group.as_str()).collect();
    let discovery = Discovery::new(client.clone()).filter(&groups).run_aggregated().await;
    let discovery = discovery.context("cannot discover the resources of the API server")?;
    let all = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    let is_created =
        |resource: &ApiResource| created.contains(&(resource.group.clone(), resource.plural.clone()));
    Ok(all
        .filter(|(resource, _)| is_created(resource))
        .map(|(resource, capabilities)| (resource, capabilities.scope))
        .collect())
}

/// Returns group and plural of the resources that the controllers of the kind's group can create.
///
/// Includes those that Kubernetes creates for them.
fn created_resources(kind: &Kind) -> BTreeSet<(String, String)> {
    let group = &kind.definition.spec.group;
    let of_group = CONTROLLERS
        .iter()
        .filter(|controller| kinds::of(&[**controller]).any(|kind| kind.definition.spec.group == *group));
    let rules: Vec<_> = of_group
        .flat_map(|controller| (controller.rules)())
        .map(operator_core::rbac::Rule::into_policy)
        .collect();
    let with = |verb: &str| -> BTreeSet<_> {
        let rules = rules.iter().filter(|rule| rule.verbs.iter().any(|one| one == verb));
        rules.flat_map(resources).collect()
    };
    // Reviews are created too, and are no objects.
    let mut created: BTreeSet<_> = with("create").intersection(&with("list")).cloned().collect();
    created.extend(CREATED_BY_KUBERNETES.map(|(group, plural)| (group.to_owned(), plural.to_owned())));
    created
}

/// Returns group and plural of the resources of a rule, without subresources.
fn resources(rule: &PolicyRule) -> Vec<(String, String)> {
    let plurals = || rule.resources.iter().flatten().filter(|plural| !plural.contains('/'));
    let groups = rule.api_groups.iter().flatten();
    groups.flat_map(|group| plurals().map(|plural| (group.clone(), plural.clone()))).collect()
}

/// Appends the objects of a resource, or the error of listing them.
async fn append_list(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
    namespace: &str,
    found: &mut Vec<DynamicObject>,
    errors: &mut Vec<String>,
) {
    match list(api, &ListParams::default()).await {
        Ok(objects) => found.extend(objects.into_iter().map(|object| with_type(object, resource))),
        Err(error) => {
            let scope = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
            errors.push(format!("{}{scope}: {}", resource.plural, chain(&error)));
        }
    }
}

/// Adds `apiVersion` and `kind`, which objects in a list lack.
pub(crate) fn with_type(mut object: DynamicObject, resource: &ApiResource) -> DynamicObject {
    object.types =
        Some(kube::api::TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    object
}

/// Returns the tree below an object.
///
/// An object appears below the first object that it belongs to. A cycle ends at the object that
/// closes it.
fn node(object: &DynamicObject, candidates: &[DynamicObject]) -> Node {
    let (own, others): (Vec<_>, Vec<_>) =
        candidates.iter().cloned().partition(|candidate| is_child(candidate, object));
    // Objects in a Namespace that is itself a child are shown below that Namespace.
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

/// Returns whether one object belongs to another, by an owner reference or an annotation.
fn is_child(child: &DynamicObject, parent: &DynamicObject) -> bool {
    let Some(uid) = parent.uid() else { return false };
    if child.uid().as_ref() == Some(&uid) {
        return false;
    }
    let annotation = |key: &str| child.annotations().get(key).map(String::as_str);
    let has_owner_reference = child.owner_references().iter().any(|owner| owner.uid == uid);
    let owner = format!("{}/{}/{uid}", parent.namespace().unwrap_or_default(), parent.name_any());
    let is_owned_namespace = is(child, "Namespace") && annotation(OWNER_KEY) == Some(&owner);
    let is_namespace_content = is(parent, "Namespace")
        && child.namespace() == parent.metadata.name
        && annotation(MADE_FOR_KEY) == parent.metadata.name.as_deref();
    let is_configured = is(parent, "CapsuleConfiguration")
        && annotation(CONFIGURATION_ANNOTATION) == parent.metadata.name.as_deref();
    has_owner_reference || is_owned_namespace || is_namespace_content || is_configured
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
        annotations: Value,
    ) -> DynamicObject {
        let owners: Vec<_> = owner
            .into_iter()
            .map(|uid| json!({ "apiVersion": "v1", "kind": "X", "name": "x", "uid": uid }))
            .collect();
        testing::object(json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": { "name": name, "namespace": namespace, "uid": format!("{kind}-{name}"), "ownerReferences": owners, "annotations": annotations },
        }))
    }

    fn format_tree(node: &Node, depth: usize) -> String {
        let own = format!("{}{} {}\n", "  ".repeat(depth), node.kind, node.name);
        own + &node.children.iter().map(|child| format_tree(child, depth + 1)).collect::<String>()
    }

    #[test]
    fn follows_owner_references() {
        let root = object("Memcached", Some("a"), "cache", None, json!({}));
        let found = [
            object("Pod", Some("a"), "cache-1", Some("ReplicaSet-cache-x"), json!({})),
            object("ReplicaSet", Some("a"), "cache-x", Some("Deployment-cache"), json!({})),
            object("Deployment", Some("a"), "cache", Some("Memcached-cache"), json!({})),
            object("Pod", Some("a"), "other", Some("other-owner"), json!({})),
        ];
        insta::assert_snapshot!(format_tree(&node(&root, &found), 0), @r"
        Memcached cache
          Deployment cache
            ReplicaSet cache-x
              Pod cache-1
        ");
    }

    #[test]
    fn follows_annotations_across_namespaces() {
        let root = object("NamespacePlus", Some("teams"), "blue", None, json!({}));
        let found = [
            object("Namespace", None, "blue", None, json!({ OWNER_KEY: "teams/blue/NamespacePlus-blue" })),
            object("Namespace", None, "red", None, json!({ OWNER_KEY: "teams/blue/previous-uid" })),
            object("ResourceQuota", Some("blue"), "default-quota", None, json!({ MADE_FOR_KEY: "blue" })),
            object("ResourceQuota", Some("red"), "copied", None, json!({ MADE_FOR_KEY: "blue" })),
        ];
        insta::assert_snapshot!(format_tree(&node(&root, &found), 0), @r"
        NamespacePlus blue
          Namespace blue
            ResourceQuota default-quota
        ");
    }

    #[test]
    fn shows_objects_of_a_tenant_below_its_namespaces() {
        let root = object("Tenant", None, "oil", None, json!({}));
        let found = [
            object("Namespace", None, "oil-a", Some("Tenant-oil"), json!({})),
            object("Namespace", None, "oil-b", Some("Tenant-oil"), json!({})),
            object("LimitRange", Some("oil-a"), "capsule-oil-0", Some("Tenant-oil"), json!({})),
            object("LimitRange", Some("former"), "capsule-oil-1", Some("Tenant-oil"), json!({})),
        ];
        insta::assert_snapshot!(format_tree(&node(&root, &found), 0), @r"
        Tenant oil
          LimitRange capsule-oil-1
          Namespace oil-a
            LimitRange capsule-oil-0
          Namespace oil-b
        ");
    }

    #[test]
    fn stops_at_cycles_of_owner_references() {
        let root = object("A", None, "a", Some("B-b"), json!({}));
        let found = [object("B", None, "b", Some("A-a"), json!({})), root.clone()];
        assert_eq!(format_tree(&node(&root, &found), 0), "A a\n  B b\n    A a\n");
    }

    #[test]
    fn derives_resources_from_the_rules_of_controllers() {
        let created = |kind: &str| created_resources(&kinds::find(kind).unwrap());
        assert!(created("memcached").contains(&("apps".to_owned(), "deployments".to_owned())));
        assert!(created("tenant").contains(&("networking.k8s.io".to_owned(), "networkpolicies".to_owned())));
        assert!(!created("podset").contains(&(String::new(), "secrets".to_owned())));
        assert!(created("tenant").iter().all(|(group, _)| group != "authorization.k8s.io"));
    }
}
