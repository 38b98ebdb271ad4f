//! A kind, its objects, and what they come to.

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

/// Where the objects are that a controller makes, as `group/version/Kind/plural`.
#[derive(Clone, Copy)]
pub(crate) enum Children {
    /// Beside the object, owned by it.
    Owned(&'static [&'static str]),
    /// The same, and a change of the spec concerns only those that are made from then on.
    MadeAnew(&'static [&'static str]),
    /// In a namespace of the object's name, which it makes too.
    InItsNamespace(&'static [&'static str]),
}

/// A kind under test, and the controller that looks after it.
pub(crate) struct Subject {
    /// Runs as long as it is held.
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

    /// An object of that name and spec.
    fn object(&self, name: &str, spec: &Value) -> DynamicObject {
        DynamicObject::new(name, &self.resource).data(json!({ "spec": spec }))
    }

    /// The spec as the API server would store it; nothing if it refuses it.
    pub(crate) async fn admitted(&self, spec: &Value) -> Option<Value> {
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let answer = self.api().create(&dry_run, &self.object("admitted", spec)).await.ok()?;
        Some(answer.data["spec"].clone())
    }

    pub(crate) async fn create(&self, name: &str, spec: &Value) -> Result<()> {
        self.api().create(&PostParams::default(), &self.object(name, spec)).await?;
        Ok(())
    }

    /// Changes the spec, and returns what it is then; nothing if the API server refuses it.
    pub(crate) async fn change(&self, name: &str, spec: &Value) -> Option<Value> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let changed = self.api().patch(name, &PatchParams::default(), &patch).await.ok()?;
        if let Children::MadeAnew(kinds) = self.children {
            // The controller has the new spec before it sees that pods are missing.
            self.until_seen(name).await;
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

    async fn until_seen(&self, name: &str) {
        eventually(&format!("{name} to be seen"), PATIENCE, async || {
            Ok(is_seen(&self.api().get(name).await?))
        })
        .await
        .unwrap();
    }

    /// Waits until two objects, which have the same spec, have come to the same.
    pub(crate) async fn until_alike(&self, one: &str, other: &str, after: &str) {
        eventually(
            &format!("{one}, changed by {after}, to be like {other}, which is new"),
            PATIENCE,
            async || {
                let (mut one, mut other) = (self.state(one).await?, self.state(other).await?);
                // What cannot become ready keeps the pods that it had before, and says so.
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

    /// What an object has come to: its children and its conditions, with names of its own taken out.
    async fn state(&self, name: &str) -> Result<Value> {
        let object = self.api().get(name).await?;
        anyhow::ensure!(is_seen(&object), "{name} has not been looked at");
        let children = match self.children {
            Children::Owned(kinds) | Children::MadeAnew(kinds) => {
                self.children_of(&object, kinds, &self.home).await?
            }
            Children::InItsNamespace(kinds) => {
                let namespaces =
                    Api::<DynamicObject>::all_with(self.client.clone(), &parsed("v1/Namespace/namespaces"));
                let mut children = vec![namespaces.get(name).await?];
                children.extend(self.children_of(&object, kinds, name).await?);
                children
            }
        };
        let mut children: Vec<_> = children.iter().map(essence).collect();
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
            let is_in_its_own = matches!(self.children, Children::InItsNamespace(_));
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
    let words: Vec<_> = kind.split('/').collect();
    let (group, version, kind, plural) = match words[..] {
        [version, kind, plural] => ("", version, kind, plural),
        [group, version, kind, plural] => (group, version, kind, plural),
        _ => panic!("{kind} is no kind"),
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

/// What the states do not have in common, line by line.
fn difference(one: &Value, other: &Value) -> String {
    let (one, other) = (format!("{one:#}"), format!("{other:#}"));
    let lacks = |text: &str, line: &str| !text.lines().any(|present| present == line);
    let only = |mark: &str, here: &str, there: &str| {
        let lines = here.lines().filter(|line| lacks(there, line));
        lines.map(|line| format!("{mark} {}", line.trim())).collect::<Vec<_>>()
    };
    [only("changed:", &one, &other), only("new:", &other, &one)].concat().join("\n")
}

/// Whether the controller has looked at the present spec.
fn is_seen(object: &DynamicObject) -> bool {
    object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation
}

/// What begins the name of the volume with a pod's token; the rest is drawn by lot.
const TOKEN_VOLUME: &str = "kube-api-access-";
const DRAWN: usize = 5;

/// What is the same in two objects that were made alike.
fn essence(child: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(child).unwrap();
    value["kind"] = child.types.as_ref().map(|types| types.kind.clone()).into();
    value.as_object_mut().unwrap().remove("status");
    let metadata = value["metadata"].as_object_mut().unwrap();
    metadata
        .retain(|field, _| ["name", "labels", "annotations", "deletionTimestamp"].contains(&field.as_str()));
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        // The API server copies them from the node that a pod comes to.
        labels.retain(|label, _| !label.starts_with("topology.kubernetes.io/"));
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        // How often the Deployment's controller has rolled out.
        annotations.remove("deployment.kubernetes.io/revision");
    }
    if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
        for of_its_own in ["nodeName", "clusterIP", "clusterIPs"] {
            spec.remove(of_its_own);
        }
    }
    let mut text = value.to_string();
    while let Some(place) = text.find(TOKEN_VOLUME) {
        text.replace_range(place..place + TOKEN_VOLUME.len() + DRAWN, "TOKEN");
    }
    // The number of a pod depends on which were there before.
    let name = child.name_any();
    if let Some((set, _)) = name.rsplit_once("-pod-") {
        text = text.replace(&name, &format!("{set}-pod-n"));
    }
    serde_json::from_str(&text).unwrap()
}
