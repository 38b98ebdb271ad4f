//! Namespaces that owners create and delete, and requests that wait.

use std::time::Duration;

use cluster::wait::eventually;
use futures::{AsyncBufReadExt, StreamExt, pin_mut};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{Owner, PATIENCE, TestProxy, shared};

/// Longer than the limit of a response that is no stream.
const SILENCE: Duration = Duration::from_secs(70);

/// Lets an account do what the manager lets owners do: create namespaces, and read and delete its own.
async fn allow(proxy: &TestProxy, owner: &Owner<'_>, own: &[&str]) {
    let namespace = owner.name.split(':').nth(2).unwrap();
    let (group, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let name = format!("of-{namespace}");
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "delete"], "resourceNames": own},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ]);
    proxy
        .apply(
            json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        )
        .await;
    proxy
        .apply(json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "builder"}],
        }))
        .await;
}

#[tokio::test]
async fn api_server_says_when_an_owner_has_rights_in_a_new_namespace() {
    let proxy = shared().await;
    let owner = proxy.owner(&["founder"]).await;
    allow(proxy, &owner, &[]).await;
    eventually("the view of the owner", PATIENCE, async || {
        Ok(owner.get("/api/v1/namespaces", &[]).await.status() == 200)
    })
    .await
    .unwrap();
    // As Helm does, in JSON.
    let file = tempfile::NamedTempFile::new().unwrap();
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "founder-dev" } });
    std::fs::write(file.path(), namespace.to_string()).unwrap();
    owner.kubectl(&["create", "-f", file.path().to_str().unwrap()]).await.unwrap();
    owner.kubectl(&["create", "secret", "generic", "first", "--namespace=founder-dev"]).await.unwrap();
    eventually("a review that allows it", PATIENCE, async || {
        let log = proxy.cluster.audit()?.by_user(&owner.name);
        let codes: Vec<_> = log
            .entries
            .iter()
            .filter(|one| one.resource == "selfsubjectaccessreviews")
            .map(|one| one.code)
            .collect();
        let are_allowed = !codes.is_empty() && codes.iter().all(|code| *code == 201);
        Ok(if are_allowed { Ok(()) } else { Err(codes) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn deletion_and_waiting_for_it_end_by_themselves() {
    let proxy = shared().await;
    let owner = proxy.owner(&["leaving"]).await;
    allow(proxy, &owner, &["leaving-a", "leaving-b"]).await;
    for name in ["leaving-a", "leaving-b"] {
        proxy.namespace_of("leaving", name, &[]).await;
    }
    owner.until_namespaces(&["leaving-a", "leaving-b"]).await;
    // kubectl deletes, and watches until the namespace is gone.
    timeout(2 * PATIENCE, owner.kubectl(&["delete", "namespace", "leaving-a"])).await.unwrap().unwrap();
    let waiting = owner.kubectl(&["wait", "--for=delete", "namespace/leaving-b", "--timeout=60s"]);
    let deleting = owner.kubectl(&["delete", "namespace", "leaving-b", "--wait=false"]);
    let (waited, deleted) = tokio::join!(timeout(2 * PATIENCE, waiting), deleting);
    deleted.unwrap();
    waited.unwrap().unwrap();
    assert_eq!(owner.namespaces().await, <[&str; 0]>::default());
}

#[tokio::test]
async fn silent_watch_is_not_cut() {
    let proxy = shared().await;
    let owner = proxy.owner(&["silent"]).await;
    proxy.namespace_of("silent", "silent-dev", &[]).await;
    allow(proxy, &owner, &[]).await;
    owner.until_namespaces(&["silent-dev"]).await;
    let path = "/api/v1/namespaces/silent-dev/configmaps?watch=true&fieldSelector=metadata.name%3Dlate";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let client = owner.client().await;
    let events = client.request_stream(request).await.unwrap().lines();
    pin_mut!(events);
    // The silence is what is tested.
    assert!(timeout(SILENCE, events.next()).await.is_err(), "the watch ended");
    let create = ["create", "configmap", "late", "--namespace=silent-dev"];
    owner.kubectl(&create).await.unwrap();
    let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
    assert!(event.contains("\"ADDED\"") && event.contains("late"), "{event}");
}
