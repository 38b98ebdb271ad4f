//! Rights that the audit log does not show. Each is needed: without it the API server rejects the
//! request.

use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::usage::{Right, granted};
use crate::support::{TestEnv, workbench};

/// Returns whether the API server checks the right internally, while it handles a request that
/// needs another right.
pub(super) fn is_unaudited(right: &Right) -> bool {
    // When an object is created whose owner reference blocks deletion.
    let is_finalizers = right.resource.ends_with("/finalizers") && right.verb == "update";
    // When a RoleBinding is created, or a ClusterRole that grants the right.
    // The API server logs the request of the account that is impersonated.
    let is_impersonation = right.verb == "impersonate";
    is_finalizers || is_impersonation || right.verb == "bind" || is_only_granted(right)
}

/// Returns whether the manager has the right only to grant it: no client can grant rights that it
/// does not have.
fn is_only_granted(right: &Right) -> bool {
    right.role == "ensemble-capsuleconfiguration" && right.resource == "namespaces"
}

#[tokio::test]
async fn unaudited_rights_are_needed() {
    let env = workbench().await;
    let traceless: Vec<_> = granted(env, &env.account).await.into_iter().filter(is_unaudited).collect();
    assert!(traceless.len() > 3, "{traceless:#?}");
    for (number, right) in traceless.iter().enumerate() {
        let (with, without) = (format!("with-{number}"), format!("without-{number}"));
        bind(env, &with, right, true).await;
        bind(env, &without, right, false).await;
        dry_run(env, &with, right).await.unwrap_or_else(|error| panic!("{right}: {error:#}"));
        let refused = dry_run(env, &without, right).await.expect_err(&right.to_string());
        // A client without `bind` must hold the role's rights. A role that does not exist grants
        // none.
        let is_denied = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.is_forbidden() || status.is_not_found());
        assert!(is_denied(&refused), "{right}: {refused:#}");
    }
}

/// Grants a user the rights of a controller, with or without `right`.
async fn bind(env: &TestEnv, user: &str, right: &Right, with: bool) {
    let mut role = env.read(&["get", "clusterrole", &right.role]).await;
    role["metadata"] = json!({ "name": user });
    if !with {
        let rules = role["rules"].as_array_mut().unwrap();
        for rule in rules.iter_mut() {
            remove_from(rule, right);
        }
        rules.retain(|rule| rule["resourceNames"] != json!([]) && rule["resources"] != json!([]));
    }
    env.cluster.apply_yaml(&role.to_string()).await.unwrap();
    let (role, subject) = (format!("--clusterrole={user}"), format!("--user={user}"));
    env.kubectl(&["create", "clusterrolebinding", user, &role, &subject]).await.unwrap();
}

fn remove_from(rule: &mut Value, right: &Right) {
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

/// Sends a dry-run create that needs the right.
async fn dry_run(env: &TestEnv, user: &str, right: &Right) -> kube::Result<DynamicObject> {
    let client = env.cluster.client_as(user, &[]).await.unwrap();
    if right.verb == "impersonate" {
        return may_impersonate(client).await;
    }
    if is_only_granted(right) {
        let granted = json!({ "apiGroups": [""], "resources": ["namespaces"], "verbs": [right.verb] });
        let role = json!({ "metadata": { "generateName": "role-" }, "rules": [granted] });
        return create(client, "rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", role).await;
    }
    if let Some(role) = &right.name {
        let (group, kind) = ("rbac.authorization.k8s.io/v1", "RoleBinding");
        return create(client, group, kind, "rolebindings", binding(role)).await;
    }
    let (kind, plural, spec) = child_of(&right.role);
    let metadata = json!({ "generateName": "child-", "ownerReferences": [owner(env, right).await] });
    create(client, "v1", kind, plural, json!({ "metadata": metadata, "spec": spec })).await
}

/// Asks whether the user may act as ServiceAccounts. The client of the test acts as the user already,
/// so it cannot act as an account.
async fn may_impersonate(client: Client) -> kube::Result<DynamicObject> {
    let (group, kind) = ("authorization.k8s.io/v1", "SelfSubjectAccessReview");
    let attributes = json!({ "verb": "impersonate", "resource": "serviceaccounts" });
    let review = json!({ "metadata": {}, "spec": { "resourceAttributes": attributes } });
    let review = create(client, group, kind, "selfsubjectaccessreviews", review).await?;
    if review.data["status"]["allowed"] == true {
        return Ok(review);
    }
    let denied = json!({ "status": "Failure", "code": 403, "reason": "Forbidden", "message": "impersonate" });
    Err(kube::Error::Api(Box::new(serde_json::from_value(denied).unwrap())))
}

fn binding(role: &str) -> Value {
    json!({
        "metadata": { "generateName": "binding-" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol" }],
    })
}

/// Returns a kind that a controller creates, its plural, and a spec.
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

/// Returns an owner reference that blocks deletion. The owner need not exist.
async fn owner(env: &TestEnv, right: &Right) -> Value {
    let plural = right.resource.trim_end_matches("/finalizers");
    let crd = env.read(&["get", "crd", &format!("{plural}.{}", right.group)]).await;
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
        "ClusterRole" | "SelfSubjectAccessReview" => Api::all_with(client, &resource),
        _ => Api::namespaced_with(client, "default", &resource),
    };
    api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await
}
