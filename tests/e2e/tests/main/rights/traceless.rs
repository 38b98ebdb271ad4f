//! Rights that leave no trace in an audit log, and the proof that each is needed: without it the API server refuses.

use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::table::{Right, granted};
use crate::support::Stage;

/// Whether the API server asks for a right by itself, while it answers a request that another right is for.
pub(super) fn is_traceless(right: &Right) -> bool {
    // When an object is created that blocks the deletion of its owner.
    let is_finalizers = right.resource.ends_with("/finalizers") && right.verb == "update";
    // When a RoleBinding is created, or a ClusterRole that grants the right.
    is_finalizers || right.verb == "bind" || is_granted_on(right)
}

/// Whether the manager has a right only because nobody may put more into a role than they have.
fn is_granted_on(right: &Right) -> bool {
    right.role == "ensemble-capsuleconfiguration" && right.resource == "namespaces"
}

#[tokio::test]
async fn rights_that_leave_no_trace_are_needed_all_the_same() {
    let stage = Stage::complete().await;
    let traceless: Vec<_> = granted(&stage, &stage.account).await.into_iter().filter(is_traceless).collect();
    assert!(traceless.len() > 3, "{traceless:#?}");
    for (number, right) in traceless.iter().enumerate() {
        let (with, without) = (format!("with-{number}"), format!("without-{number}"));
        bind(&stage, &with, right, true).await;
        bind(&stage, &without, right, false).await;
        try_it(&stage, &with, right).await.unwrap_or_else(|error| panic!("{right}: {error:#}"));
        let refused = try_it(&stage, &without, right).await.expect_err(&right.to_string());
        // Who may not bind a role is asked to hold its rights, and a role that is not there gives none.
        let is_refusal = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.is_forbidden() || status.is_not_found());
        assert!(is_refusal(&refused), "{right}: {refused:#}");
    }
}

/// Gives a user the rights of a controller: all of them, or all but one.
async fn bind(stage: &Stage, user: &str, right: &Right, with: bool) {
    let mut role = stage.read(&["get", "clusterrole", &right.role]).await;
    role["metadata"] = json!({ "name": user });
    if !with {
        let rules = role["rules"].as_array_mut().unwrap();
        for rule in rules.iter_mut() {
            take_out(rule, right);
        }
        rules.retain(|rule| rule["resourceNames"] != json!([]) && rule["resources"] != json!([]));
    }
    stage.cluster.apply_yaml(&role.to_string()).await.unwrap();
    let (role, subject) = (format!("--clusterrole={user}"), format!("--user={user}"));
    stage.kubectl(&["create", "clusterrolebinding", user, &role, &subject]).await.unwrap();
}

fn take_out(rule: &mut Value, right: &Right) {
    let resource = Value::from(right.resource.clone());
    if !rule["resources"].as_array().unwrap().contains(&resource) {
        return;
    }
    let (field, value) = match &right.name {
        Some(name) => ("resourceNames", Value::from(name.clone())),
        None => ("resources", resource),
    };
    rule[field].as_array_mut().unwrap().retain(|present| *present != value);
}

/// Creates, without leaving anything, what the right is for.
async fn try_it(stage: &Stage, user: &str, right: &Right) -> kube::Result<DynamicObject> {
    let client = stage.cluster.client_as(user, &[]).await.unwrap();
    if is_granted_on(right) {
        let granted = json!({ "apiGroups": [""], "resources": ["namespaces"], "verbs": [right.verb] });
        let role = json!({ "metadata": { "generateName": "role-" }, "rules": [granted] });
        return create(client, "rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", role).await;
    }
    if let Some(role) = &right.name {
        let (group, kind) = ("rbac.authorization.k8s.io/v1", "RoleBinding");
        return create(client, group, kind, "rolebindings", binding(role)).await;
    }
    let (kind, plural, spec) = child_of(&right.role);
    let metadata = json!({ "generateName": "child-", "ownerReferences": [owner(stage, right).await] });
    create(client, "v1", kind, plural, json!({ "metadata": metadata, "spec": spec })).await
}

fn binding(role: &str) -> Value {
    json!({
        "metadata": { "generateName": "binding-" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody" }],
    })
}

/// A kind that a controller creates, its plural, and a spec.
fn child_of(role: &str) -> (&'static str, &'static str, Value) {
    match role {
        "ensemble-podset" => {
            let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.10" });
            ("Pod", "pods", json!({ "containers": [container] }))
        }
        "ensemble-tenant" => ("ResourceQuota", "resourcequotas", json!({ "hard": { "pods": "1" } })),
        _ => ("Service", "services", json!({ "ports": [{ "port": 80 }], "selector": { "app": "cache" } })),
    }
}

/// A reference that blocks the deletion of its owner, which need not be there.
async fn owner(stage: &Stage, right: &Right) -> Value {
    let plural = right.resource.trim_end_matches("/finalizers");
    let crd = stage.read(&["get", "crd", &format!("{plural}.{}", right.group)]).await;
    let version = crd["spec"]["versions"][0]["name"].as_str().unwrap().to_owned();
    json!({
        "apiVersion": format!("{}/{version}", right.group), "kind": crd["spec"]["names"]["kind"], "name": "owner",
        "uid": "00000000-0000-0000-0000-000000000000", "controller": true, "blockOwnerDeletion": true,
    })
}

async fn create(
    client: Client,
    api_version: &str,
    kind: &str,
    plural: &str,
    mut object: Value,
) -> kube::Result<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let named = kube::api::GroupVersionKind::gvk(group, version, kind);
    let resource = kube::api::ApiResource::from_gvk_with_plural(&named, plural);
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let api: Api<DynamicObject> = match kind {
        "ClusterRole" => Api::all_with(client, &resource),
        _ => Api::namespaced_with(client, "default", &resource),
    };
    api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await
}
