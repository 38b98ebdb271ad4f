//! Who is taken for whom.

use cluster::wait::eventually;
use futures::future::{join_all, join3};
use http::Request;
use kube::{Client, client::Body};
use serde_json::json;

use crate::support::{PATIENCE, send, shared};

#[tokio::test]
async fn owners_by_group_by_tenant_owner_and_by_account_see_theirs() {
    let proxy = shared().await;
    let owner = proxy.owner(&["by-account"]).await;
    proxy.namespace_of("by-account", "by-account-dev", &[]).await;
    owner.until_namespaces(&["by-account-dev"]).await;

    let second = proxy.owner(&[]).await;
    let group = format!("system:serviceaccounts:{}", second.name.split(':').nth(2).unwrap());
    proxy.tenant("by-group", &[("Group", &group)]).await;
    proxy.namespace_of("by-group", "by-group-dev", &[]).await;
    second.until_namespaces(&["by-group-dev"]).await;

    let third = proxy.owner(&[]).await;
    proxy
        .apply(json!({
            "apiVersion": "capsule.clastix.io/v1beta2", "kind": "TenantOwner",
            "metadata": {"name": "third", "labels": {"projectcapsule.dev/tenant": "by-tenant-owner"}},
            "spec": {"kind": "ServiceAccount", "name": third.name},
        }))
        .await;
    proxy.tenant("by-tenant-owner", &[("User", "nobody")]).await;
    proxy.namespace_of("by-tenant-owner", "by-tenant-owner-dev", &[]).await;
    third.until_namespaces(&["by-tenant-owner-dev"]).await;
}

#[tokio::test]
async fn promoted_account_sees_the_tenant_of_its_namespace() {
    let proxy = shared().await;
    let promoted = proxy.owner(&[]).await;
    let own = promoted.name.split(':').nth(2).unwrap();
    proxy.tenant("promoting", &[("User", "nobody")]).await;
    proxy.namespace_of("promoting", "promoting-dev", &[]).await;
    let report = async |namespaces: &[&str]| {
        let owner = json!({"kind": "ServiceAccount", "name": promoted.name, "clusterRoles": []});
        let status =
            json!({"status": {"namespaces": namespaces, "size": 1, "state": "Active", "owners": [owner]}});
        let patch = format!("--patch={status}");
        let patch = ["patch", "tenant", "promoting", "--subresource=status", "--type=merge", &patch];
        proxy.cluster.kubectl(&patch).await.unwrap();
    };
    promoted.until_namespaces(&[]).await;
    report(&["promoting-dev", own]).await;
    promoted.until_namespaces(&["promoting-dev"]).await;
    // An account that is in no namespace of the Tenant is not promoted.
    report(&["promoting-dev"]).await;
    promoted.until_namespaces(&[]).await;
}

#[tokio::test]
async fn view_is_of_the_impersonated_user_if_impersonation_is_allowed() {
    let proxy = shared().await;
    let (owner, other) = (proxy.owner(&["impersonated"]).await, proxy.owner(&["impersonator"]).await);
    proxy.namespace_of("impersonated", "impersonated-dev", &[]).await;
    proxy.namespace_of("impersonator", "impersonator-dev", &[]).await;
    owner.until_namespaces(&["impersonated-dev"]).await;
    other.until_namespaces(&["impersonator-dev"]).await;
    let as_owner = format!("--as={}", owner.name);
    let args = ["get", "namespaces", "--output=name", &as_owner];
    let refused = other.get("/api/v1/namespaces", &[("Impersonate-User", &owner.name)]).await;
    let text = String::from_utf8_lossy(refused.body());
    assert_eq!(refused.status(), 403);
    assert!(text.contains("cannot impersonate"), "{text}");
    let (namespace, name) = (other.name.split(':').nth(2).unwrap(), "builder");
    proxy
        .apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "impersonate-accounts"},
            "rules": [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}],
        }))
        .await;
    proxy
        .apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "impersonate-accounts"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "impersonate-accounts"},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
        }))
        .await;
    eventually("the view of the impersonated account", PATIENCE, async || {
        Ok(other.kubectl(&args).await.is_ok_and(|seen| seen == "namespace/impersonated-dev\n"))
    })
    .await
    .unwrap();
    assert_eq!(other.namespaces().await, ["impersonator-dev"], "the own view stays");
}

#[tokio::test]
async fn who_cannot_be_identified_gets_401() {
    let proxy = shared().await;
    let wrong = proxy.get("wrong", "/api/v1/namespaces", &[]).await;
    assert_eq!(wrong.status(), 401);
    assert!(!String::from_utf8_lossy(wrong.body()).contains("proxy"), "the API server refuses it");
    let basic = [("Authorization", "Basic YTpi")];
    let refused = proxy.get("", "/api/v1/namespaces", &basic).await;
    assert_eq!(refused.status(), 401);
    assert!(String::from_utf8_lossy(refused.body()).contains("the proxy cannot tell who sends this request"));
}

/// The API server ends the connection of a request with a wrong token.
#[tokio::test]
async fn wrong_tokens_break_no_request_of_others() {
    let proxy = shared().await;
    let owner = proxy.owner(&["unbroken"]).await;
    proxy.namespace_of("unbroken", "unbroken-dev", &[]).await;
    owner.until_namespaces(&["unbroken-dev"]).await;
    let get = async |client: &Client| {
        let request = Request::get("/api/v1/namespaces").body(Body::empty()).unwrap();
        send(client, request).await.status().as_u16()
    };
    let post = async |client: &Client| {
        let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", "application/json");
        send(client, request.body(Body::from(review.as_bytes().to_vec())).unwrap()).await.status().as_u16()
    };
    let (known, unknown) = (owner.client().await, proxy.client("wrong").await);
    for _ in 0..100 {
        let wrong = join_all((0..4).map(|_| get(&unknown)));
        let reads = join_all((0..4).map(|_| get(&known)));
        let writes = join_all((0..4).map(|_| post(&known)));
        assert_eq!(join3(wrong, reads, writes).await, (vec![401; 4], vec![200; 4], vec![201; 4]));
    }
}

#[tokio::test]
async fn first_view_of_a_user_takes_three_requests_and_the_next_one() {
    let proxy = shared().await;
    let owner = proxy.owner(&["requests"]).await;
    proxy.namespace_of("requests", "requests-dev", &[]).await;
    owner.until_namespaces(&["requests-dev"]).await;
    let account = proxy.cluster.service_account_token(owner.name.split(':').nth(2).unwrap(), "builder");
    // Another token of the same user.
    let token = account.await.unwrap();
    let began = proxy.cluster.audit_mark().unwrap();
    for _ in 0..3 {
        assert_eq!(proxy.get(&token, "/api/v1/namespaces?resourceVersion=0", &[]).await.status(), 200);
    }
    let requests = || {
        let log = proxy.cluster.audit_since(began).unwrap();
        let ours = log.filter(|entry| {
            entry.user == owner.name || entry.request_uri.contains("tenant%20in%20%28requests%29")
        });
        ours.entries.iter().map(|entry| (entry.resource.clone(), entry.code)).collect::<Vec<_>>()
    };
    let expected = [
        ("namespaces", 403),
        ("selfsubjectreviews", 201),
        ("namespaces", 200),
        ("namespaces", 200),
        ("namespaces", 200),
    ];
    let expected = expected.map(|(resource, code)| (resource.to_owned(), code)).to_vec();
    eventually("the audit log", PATIENCE, async || Ok(requests().len() >= expected.len())).await.unwrap();
    assert_eq!(requests(), expected);
}
