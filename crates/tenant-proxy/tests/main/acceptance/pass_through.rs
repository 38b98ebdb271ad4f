//! Requests that have no view go on as they are.

use cluster::wait::eventually;
use serde_json::json;

use crate::support::{PATIENCE, USER, shared};

#[tokio::test]
async fn writes_are_those_of_the_user() {
    let proxy = shared().await;
    let owner = proxy.owner(&["writes"]).await;
    proxy.namespace_of("writes", "writes-dev", &[]).await;
    let namespace = owner.name.split(':').nth(2).unwrap();
    proxy
        .apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "owner", "namespace": "writes-dev"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "builder"}],
        }))
        .await;
    let kubectl =
        async |args: &[&str]| owner.kubectl(&[&["--namespace=writes-dev"], args].concat()).await.unwrap();
    eventually("the rights of the account", PATIENCE, async || {
        Ok(owner.kubectl(&["--namespace=writes-dev", "get", "configmaps"]).await.is_ok())
    })
    .await
    .unwrap();
    let began = proxy.cluster.audit_mark().unwrap();
    kubectl(&["create", "configmap", "map", "--from-literal=a=1"]).await;
    kubectl(&["patch", "configmap", "map", "--patch={\"data\": {\"a\": \"2\"}}"]).await;
    kubectl(&["create", "deployment", "web", "--image=web"]).await;
    kubectl(&["scale", "deployment", "web", "--replicas=2"]).await;
    let map = kubectl(&["get", "configmap", "map", "--output=json"]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), map).unwrap();
    kubectl(&["replace", "--filename", file.path().to_str().unwrap()]).await;
    kubectl(&["delete", "configmap", "map"]).await;
    let writes = || proxy.cluster.audit_since(began).unwrap().in_namespace("writes-dev").writes();
    eventually("the audit log of the deletion", PATIENCE, async || {
        Ok(writes().entries.iter().any(|entry| entry.verb == "delete" && entry.name == "map"))
    })
    .await
    .unwrap();
    let own = writes().by_user(&owner.name);
    assert!(own.entries.len() >= 6 && own.entries.iter().all(|entry| entry.impersonator.is_none()));
    assert!(writes().by_user(USER).entries.is_empty(), "the proxy writes nothing");
}

#[tokio::test]
async fn discovery_and_new_kinds_are_as_without_the_proxy() {
    let proxy = shared().await;
    proxy
        .apply(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.proxy.example.com"},
            "spec": {
                "group": "proxy.example.com", "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        }))
        .await;
    for args in [
        &["api-resources", "--api-group=apps", "--no-headers"][..],
        &["explain", "pod.spec.containers"],
        &["version", "--output=json"],
        &["get", "--raw", "/openapi/v3/api/v1"],
        &["api-resources", "--api-group=proxy.example.com", "--no-headers"],
        &["auth", "whoami", "--output=jsonpath={.status.userInfo}"],
    ] {
        let same = async || -> anyhow::Result<bool> {
            let (through, direct) = (proxy.kubectl("alice", args).await?, proxy.direct("alice", args).await?);
            Ok(through == direct && !through.is_empty())
        };
        eventually(&args.join(" "), PATIENCE, same).await.unwrap();
    }
}

#[tokio::test]
async fn large_answers_and_bodies_arrive_whole() {
    let proxy = shared().await;
    let owner = proxy.owner(&[]).await;
    let namespace = owner.name.split(':').nth(2).unwrap();
    proxy
        .apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "owner", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "builder"}],
        }))
        .await;
    let client = owner.client().await;
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, namespace);
    eventually("the rights of the account", PATIENCE, async || Ok(maps.get_opt("none").await.is_ok()))
        .await
        .unwrap();
    let text: String = (b'a'..=b'w').cycle().take(900_000).map(char::from).collect();
    for index in 0..5 {
        let map = json!({"metadata": {"name": format!("map-{index}")}, "data": {"text": text}});
        maps.create(&kube::api::PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
    let all = maps.list(&kube::api::ListParams::default()).await.unwrap();
    let whole =
        all.iter().filter(|map| map.data.as_ref().is_some_and(|data| data.get("text") == Some(&text)));
    assert_eq!(whole.count(), 5);
}
