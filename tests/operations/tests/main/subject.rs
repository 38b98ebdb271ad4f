//! A kind under test, its objects, and their final state.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use cluster::{TestNamespace, wait::eventually};
use harness::Harness;
use kube::{
    Api, Client, CustomResourceExt, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use operator_core::Controller;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(2);

/// Location of an object's children, as `group/version/Kind/plural`.
#[derive(Clone, Copy)]
pub(crate) enum Children {
    /// Owned children in the object's namespace.
    Owned(&'static [&'static str]),
    /// Owned children. A changed spec applies only to new ones.
    Recreated(&'static [&'static str]),
    /// Children in a namespace with the object's name, which the controller also creates.
    InNamespace(&'static [&'static str]),
}

/// A kind under test and its controller.
pub(crate) struct Subject {
    /// Keeps the controller running.
    _harness: Arc<Harness>,
    pub(crate) schema: Value,
    pub(crate) base: Value,
    client: Client,
    home: TestNamespace,
    resource: ApiResource,
    children: Children,
}

impl Subject {
    pub(crate) async fn of<T: Controller>(base: Value, children: Children) -> Self {
        let harness = harness::controller::<T>().await.unwrap();
        let client = harness.cluster.client().await.unwrap();
        let home = harness.cluster.namespace("operations").await.unwrap();
        let crd = serde_json::to_value(T::Object::crd()).unwrap();
        let schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
        let resource = ApiResource::erase::<T::Object>(&());
        Self { _harness: harness, schema, base, client, home, resource, children }
    }

    fn api(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.home, &self.resource)
    }

    /// Returns an object with this name and spec.
    fn object(&self, name: &str, spec: &Value) -> DynamicObject {
        DynamicObject::new(name, &self.resource).data(json!({ "spec": spec }))
    }

    /// Returns the spec as the API server would store it, or `None` if it rejects it.
    pub(crate) async fn admitted(&self, spec: &Value) -> Option<Value> {
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let answer = self.api().create(&dry_run, &self.object("admitted", spec)).await.ok()?;
        Some(answer.data["spec"].clone())
    }

    pub(crate) async fn create(&self, name: &str, spec: &Value) -> Result<()> {
        self.api().create(&PostParams::default(), &self.object(name, spec)).await?;
        Ok(())
    }

    /// Changes the spec and returns the stored spec, or `None` if the API server rejects it.
    pub(crate) async fn change(&self, name: &str, spec: &Value) -> Option<Value> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let changed = self.api().patch(name, &PatchParams::default(), &patch).await.ok()?;
        if let Children::Recreated(kinds) = self.children {
            // // The controller must observe the new spec before it recreates the Pods.
            self.until_observed(name).await;
            let children = self.children_of(&changed, kinds, &self.home).await.unwrap();
            for child in children {
                let api = self.namespaced(kinds[0], &self.home);
                let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
                let _ = api.delete(&child.name_any(), &at_once).await;
            }
        }
        Some(changed.data["spec"].clone())
    }

    pub(crate) async fn delete(&self, name: &str) {
        let patch = Patch::Merge(json!({ "spec": { "deletionPolicy": self.base.get("deletionPolicy") } }));
        if self.base.get("deletionPolicy").is_some() {
            self.api().patch(name, &PatchParams::default(), &patch).await.unwrap();
        }
        self.api().delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn until_observed(&self, name: &str) {
        eventually(&format!("{name} to be observed"), PATIENCE, async || {
            Ok(is_observed(&self.api().get(name).await?))
        })
        .await
        .unwrap();
    }

    /// Waits until two objects with the same spec have the same state.
    pub(crate) async fn until_equal(&self, one: &str, other: &str, after: &str) {
        eventually(
            &format!("{one}, changed by {after}, to equal the new object {other}"),
            PATIENCE,
            async || {
                let (mut one, mut other) = (self.state(one).await?, self.state(other).await?);
                // // An object that cannot become ready keeps its previous Pods and reports it.
                if !other["conditions"].to_string().contains(r#"["Ready","True""#) {
                    one["conditions"] = Value::Null;
                    other["conditions"] = Value::Null;
                }
                Ok(if one == other { Ok(()) } else { Err(difference(&one, &other)) })
            },
        )
        .await
        .unwrap();
    }

    /// Returns the state of an object: its children and conditions, without names.
    async fn state(&self, name: &str) -> Result<Value> {
        let object = self.api().get(name).await?;
        anyhow::ensure!(is_observed(&object), "{name} has not been observed");
        let children = match self.children {
            Children::Owned(kinds) | Children::Recreated(kinds) => {
                self.children_of(&object, kinds, &self.home).await?
            }
            Children::InNamespace(kinds) => {
                let namespaces =
                    Api::<DynamicObject>::all_with(self.client.clone(), &parsed("v1/Namespace/namespaces"));
                let mut children = vec![namespaces.get(name).await?];
                children.extend(self.children_of(&object, kinds, name).await?);
                children
            }
        };
        let mut children: Vec<_> = children.iter().map(comparable_parts).collect();
        children.sort_by_key(ToString::to_string);
        let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let conditions: Vec<_> =
            conditions.iter().map(|one| json!([one["type"], one["status"], one["reason"]])).collect();
        let state = json!({ "children": children, "conditions": conditions });
        let text = state.to_string().replace(name, "NAME").replace(self.home.name(), "HOME");
        let text = text.replace(&object.uid().unwrap_or_default(), "UID");
        let mut state: Value = serde_json::from_str(&text)?;
        if let Some(children) = state["children"].as_array_mut() {
            children.sort_by_key(ToString::to_string);
        }
        Ok(state)
    }

    async fn children_of(
        &self,
        object: &DynamicObject,
        kinds: &[&str],
        namespace: &str,
    ) -> Result<Vec<DynamicObject>> {
        let mut children = Vec::new();
        for kind in kinds {
            let list = self
                .namespaced(kind, namespace)
                .list(&ListParams::default())
                .await
                .context(kind.to_string())?;
            let is_in_its_own = matches!(self.children, Children::InNamespace(_));
            let is_owned = |child: &DynamicObject| {
                is_in_its_own
                    || child
                        .owner_references()
                        .iter()
                        .any(|owner| Some(&owner.uid) == object.metadata.uid.as_ref())
            };
            children.extend(list.items.into_iter().filter(is_owned));
        }
        Ok(children)
    }

    fn namespaced(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &parsed(kind))
    }
}

fn parsed(kind: &str) -> ApiResource {
    let parts: Vec<_> = kind.split('/').collect();
    let (group, version, kind, plural) = match parts[..] {
        [version, kind, plural] => ("", version, kind, plural),
        [group, version, kind, plural] => (group, version, kind, plural),
        _ => panic!("{kind} is not a kind"),
    };
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// Returns the lines in which two states differ.
fn difference(one: &Value, other: &Value) -> String {
    let (one, other) = (format!("{one:#}"), format!("{other:#}"));
    let lacks = |text: &str, line: &str| !text.lines().any(|present| present == line);
    let only = |mark: &str, here: &str, there: &str| {
        let lines = here.lines().filter(|line| lacks(there, line));
        lines.map(|line| format!("{mark} {}", line.trim())).collect::<Vec<_>>()
    };
    [only("changed:", &one, &other), only("new:", &other, &one)].concat().join("\n")
}

/// Returns whether the controller has observed the current spec.
fn is_observed(object: &DynamicObject) -> bool {
    object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation
}

/// Prefix of the name of a Pod's token volume. The suffix is random.
const TOKEN_VOLUME: &str = "kube-api-access-";
const RANDOM_SUFFIX_LENGTH: usize = 5;

/// Returns the parts of an object that are equal in two objects with the same spec.
fn comparable_parts(child: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(child).unwrap();
    value["kind"] = child.types.as_ref().map(|types| types.kind.clone()).into();
    value.as_object_mut().unwrap().remove("status");
    let metadata = value["metadata"].as_object_mut().unwrap();
    metadata
        .retain(|field, _| ["name", "labels", "annotations", "deletionTimestamp"].contains(&field.as_str()));
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        // // The API server copies these labels from the Pod's node.
        labels.retain(|label, _| !label.starts_with("topology.kubernetes.io/"));
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        // // Number of rollouts.
        annotations.remove("deployment.kubernetes.io/revision");
    }
    if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
        for of_its_own in ["nodeName", "clusterIP", "clusterIPs"] {
            spec.remove(of_its_own);
        }
    }
    let mut text = value.to_string();
    while let Some(place) = text.find(TOKEN_VOLUME) {
        text.replace_range(place..place + TOKEN_VOLUME.len() + RANDOM_SUFFIX_LENGTH, "TOKEN");
    }
    // // The number of a Pod depends on the Pods that existed before.
    let name = child.name_any();
    if let Some((set, _)) = name.rsplit_once("-pod-") {
        text = text.replace(&name, &format!("{set}-pod-n"));
    }
    serde_json::from_str(&text).unwrap()
}
