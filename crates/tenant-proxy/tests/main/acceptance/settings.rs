//! What settings of the proxy show: classes, volumes, and other cluster-scoped kinds.

use cluster::wait::eventually;
use serde_json::{Value, json};

use crate::support::{Owner, PATIENCE, shared};

const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// Returns the names in a list, or the status of the response.
async fn names(owner: &Owner<'_>, path: &str) -> Result<Vec<String>, u16> {
    let response = owner.get(path, &[]).await;
    if response.status() != 200 {
        return Err(response.status().as_u16());
    }
    let list: Value = serde_json::from_slice(response.body()).unwrap();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    Ok(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect())
}

/// Waits until a user sees exactly these names.
async fn until_names(owner: &Owner<'_>, path: &str, expected: Result<&[&str], u16>) {
    eventually("the names that the user sees", PATIENCE, async || {
        let names = names(owner, path).await;
        let is_so = match (&names, expected) {
            (Ok(names), Ok(expected)) => names == expected,
            (Err(status), Err(expected)) => *status == expected,
            _ => false,
        };
        Ok(if is_so { Ok(()) } else { Err(names) })
    })
    .await
    .unwrap();
}

/// Watches nodes from a version for some seconds. Returns the types and the names of the events.
async fn watched(viewer: &Owner<'_>, version: &str, seconds: u8) -> Vec<(String, String)> {
    let path = format!("/api/v1/nodes?watch=true&resourceVersion={version}&timeoutSeconds={seconds}");
    let body = viewer.get(&path, &[]).await.into_body();
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    lines
        .map(|line| serde_json::from_slice::<Value>(line).unwrap())
        .map(|event| (text(&event["type"]), text(&event["object"]["metadata"]["name"])))
        .collect()
}

fn storage_class(name: &str, tier: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name, "labels": {"tier": tier}}, "provisioner": "example.com/none",
    })
}

#[tokio::test]
async fn owner_with_a_setting_sees_the_classes_of_the_tenant() {
    let proxy = shared().await;
    let owner = proxy.owner(&[]).await;
    for (name, tier) in [("set-a", "none"), ("set-b", "mine"), ("set-c", "none"), ("set-default", "none")] {
        proxy.apply(storage_class(name, tier)).await;
    }
    let spec = |settings: Value, list: Value| {
        let owners = json!([{"kind": "ServiceAccount", "name": owner.name, "proxySettings": settings}]);
        json!({"owners": owners, "storageClasses": list})
    };
    let list = json!({"allowed": ["set-a"], "matchLabels": {"tier": "mine"}, "default": "set-default"});
    let settings = json!([{"kind": "StorageClasses", "operations": ["List"]}]);
    proxy.tenant_with("classes", spec(settings.clone(), list.clone())).await;
    until_names(&owner, STORAGE_CLASSES, Ok(&["set-a", "set-b", "set-default"])).await;
    let table = owner.kubectl(&["get", "storageclasses", "--no-headers"]).await.unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
    for name in ["set-a", "set-b", "set-default"] {
        let found = owner.kubectl(&["get", "storageclass", name, "--output=name"]).await.unwrap();
        assert_eq!(found.trim(), format!("storageclass.storage.k8s.io/{name}"));
    }
    for name in ["set-c", "missing"] {
        assert_eq!(owner.get(&format!("{STORAGE_CLASSES}/{name}"), &[]).await.status(), 403, "{name}");
    }
    // A class becomes visible by its label.
    proxy.apply(storage_class("set-c", "mine")).await;
    until_names(&owner, STORAGE_CLASSES, Ok(&["set-a", "set-b", "set-c", "set-default"])).await;
    // Without a list, the Tenant names no classes.
    proxy.tenant_with("classes", spec(settings, Value::Null)).await;
    until_names(&owner, STORAGE_CLASSES, Ok(&[])).await;
    proxy
        .tenant_with("classes", spec(json!([{"kind": "StorageClasses", "operations": ["Update"]}]), list))
        .await;
    until_names(&owner, STORAGE_CLASSES, Err(403)).await;
}

#[tokio::test]
async fn volumes_of_tenants_are_seen_by_their_label() {
    let proxy = shared().await;
    let owner = proxy.owner(&[]).await;
    for (name, tenant) in [("volume-a", "volumes"), ("volume-b", "others")] {
        proxy
            .apply(json!({
                "apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": name, "labels": {"capsule.clastix.io/tenant": tenant}},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/nowhere"}},
            }))
            .await;
    }
    let settings = json!([{"kind": "PersistentVolumes", "operations": ["List"]}]);
    let owners = json!([{"kind": "ServiceAccount", "name": owner.name, "proxySettings": settings}]);
    proxy.tenant_with("volumes", json!({"owners": owners})).await;
    until_names(&owner, "/api/v1/persistentvolumes", Ok(&["volume-a"])).await;
    assert_eq!(owner.get("/api/v1/persistentvolumes/volume-a", &[]).await.status(), 200);
    assert_eq!(owner.get("/api/v1/persistentvolumes/volume-b", &[]).await.status(), 403);
}

#[tokio::test]
async fn proxy_setting_shows_the_tenant_of_its_namespace() {
    let proxy = shared().await;
    let (owner, guest) = (proxy.owner(&["host"]).await, proxy.owner(&[]).await);
    proxy.namespace_of("host", "host-dev", &[]).await;
    owner.until_namespaces(&["host-dev"]).await;
    let setting = |extra: Value| {
        let mut subject = json!({"kind": "ServiceAccount", "name": guest.name});
        subject.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({
            "apiVersion": "capsule.clastix.io/v1beta1", "kind": "ProxySetting",
            "metadata": {"name": "guests", "namespace": "host-dev"}, "spec": {"subjects": [subject]},
        })
    };
    proxy
        .apply(setting(json!({"proxySettings": [{"kind": "StorageClasses", "operations": ["List"]}]})))
        .await;
    // The namespace is in no Tenant, as long as the status does not say it.
    assert_eq!(names(&guest, "/api/v1/namespaces").await, Err(403));
    let status = json!({"status": {"namespaces": ["host-dev"], "size": 1, "state": "Active"}}).to_string();
    let patch = ["patch", "tenant", "host", "--subresource=status", "--type=merge", "--patch", &status];
    proxy.cluster.kubectl(&patch).await.unwrap();
    until_names(&guest, "/api/v1/namespaces", Ok(&["host-dev"])).await;
    until_names(&guest, "/apis/capsule.clastix.io/v1beta2/tenants", Ok(&["host"])).await;
    assert_eq!(names(&guest, STORAGE_CLASSES).await, Ok(Vec::new()));
    assert_eq!(names(&owner, STORAGE_CLASSES).await, Err(403), "the setting is for its subjects");
    // Who can write it in a namespace must not grant cluster-scoped kinds.
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "selector": {}}]);
    let manifest = setting(json!({"clusterResources": all})).to_string();
    let refused = proxy.cluster.apply_yaml(&manifest).await.unwrap_err();
    assert!(format!("{refused:#}").contains("must have at most 0 items"), "{refused:#}");
    proxy.cluster.kubectl(&["delete", "proxysetting", "guests", "--namespace=host-dev"]).await.unwrap();
    until_names(&guest, "/api/v1/namespaces", Err(403)).await;
}

#[tokio::test]
async fn rules_show_selected_objects_of_other_kinds() {
    let proxy = shared().await;
    let viewer = proxy.owner(&[]).await;
    for (name, pool) in [("rule-a", "one"), ("rule-b", "two"), ("rule-c", "three")] {
        proxy
            .apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": pool}}}))
            .await;
    }
    let rules = |pools: &[&str]| {
        let resources: Vec<_> = pools
            .iter()
            .map(|pool| {
                json!({"apiGroups": ["*"], "resources": ["*"], "selector": {"matchLabels": {"pool": pool}}})
            })
            .collect();
        json!({
            "apiVersion": "capsule.clastix.io/v1beta1", "kind": "GlobalProxySettings",
            "metadata": {"name": "pools"},
            "spec": {"rules": [{
                "subjects": [{"kind": "ServiceAccount", "name": viewer.name}], "clusterResources": resources,
            }]},
        })
    };
    proxy.apply(rules(&["one"])).await;
    until_names(&viewer, "/api/v1/nodes", Ok(&["rule-a"])).await;
    assert_eq!(viewer.get("/api/v1/nodes/rule-a", &[]).await.status(), 200);
    assert_eq!(viewer.get("/api/v1/nodes/rule-b", &[]).await.status(), 403);
    // Several selectors are a union, in a list and in a watch.
    proxy.apply(rules(&["one", "two"])).await;
    until_names(&viewer, "/api/v1/nodes", Ok(&["rule-a", "rule-b"])).await;
    // A list that was made before the proxy knew the version of the change cannot be followed.
    let mut version = String::new();
    eventually("a list that can be followed", PATIENCE, async || {
        let list = viewer.get("/api/v1/nodes?limit=1", &[]).await;
        let list: Value = serde_json::from_slice(list.body())?;
        list["metadata"]["resourceVersion"].as_str().unwrap().clone_into(&mut version);
        Ok(watched(&viewer, &version, 1).await.is_empty())
    })
    .await
    .unwrap();
    let label = |name: &str, pool: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": pool}}});
    proxy.apply(label("rule-c", "one")).await;
    proxy.apply(label("rule-a", "three")).await;
    let seen = watched(&viewer, &version, 2).await;
    let expected = [("ADDED", "rule-c"), ("ERROR", "")].map(|(event, name)| (event.into(), name.into()));
    assert_eq!(seen, expected, "the first one is not visible any more");
    // Objects in namespaces are never shown, though the proxy could list these.
    assert_eq!(names(&viewer, "/api/v1/secrets").await, Err(403));
    proxy.apply(rules(&[])).await;
    until_names(&viewer, "/api/v1/nodes", Err(403)).await;
}

#[tokio::test]
async fn reviews_say_what_the_views_show() {
    let proxy = shared().await;
    let owner = proxy.owner(&["reviewed"]).await;
    proxy.namespace_of("reviewed", "reviewed-dev", &[]).await;
    owner.until_namespaces(&["reviewed-dev"]).await;
    for (args, expected) in [
        (&["list", "namespaces"][..], true),
        (&["watch", "namespaces"], true),
        (&["list", "tenants"], true),
        (&["get", "tenants/reviewed"], true),
        (&["get", "tenants/other"], false),
        (&["create", "namespaces"], false),
        (&["list", "nodes"], false),
        (&["list", "storageclasses"], false),
    ] {
        let args = [&["auth", "can-i"], args].concat();
        // The exit code of `no` is 1.
        let said = owner.kubectl(&args).await;
        assert_eq!(said.is_ok(), expected, "{args:?}: {said:?}");
    }
    let rules = owner.kubectl(&["auth", "can-i", "--list"]).await.unwrap();
    let line = |kind: &str| rules.lines().filter(|line| line.starts_with(kind)).collect::<Vec<_>>().join(" ");
    assert!(line("namespaces").contains("[list watch]"), "{rules}");
    assert!(line("tenants.capsule.clastix.io").contains("[reviewed]"), "{rules}");
}
