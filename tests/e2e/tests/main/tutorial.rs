//! Commands of the tutorials.

use serde_json::Value;

use crate::support::{MEMCACHED, NAMESPACE_PLUS, POD_SET, TENANT, TestEnv, sample, tutorial};

#[tokio::test]
async fn podset_tutorial_works() {
    const PODS: &[&str] = &["pods", "--selector=app=podset-sample"];
    let env = tutorial().await;
    env.kubectl(&["apply", "-f", &sample("podset")]).await.unwrap();
    env.until_ready(&POD_SET, "default", "podset-sample").await;
    let names = ["podset-sample-pod-1", "podset-sample-pod-2", "podset-sample-pod-3"];
    assert_eq!(env.names(PODS).await, names);
    let shown = env.kubectl(&["get", "podset", "podset-sample", "-o", "yaml"]).await.unwrap();
    let pod_names = names.map(|name| format!("  - {name}\n")).concat();
    assert!(shown.contains("  availableReplicas: 3\n"), "{shown}");
    assert!(shown.contains(&format!("  podNames:\n{pod_names}")), "{shown}");
    let table = env.table(&["podsets"]).await;
    assert_eq!(table[0], ["NAME", "DESIRED", "AVAILABLE", "READY", "AGE"]);
    assert_eq!(table[1][..4], ["podset-sample", "3", "3", "3"]);

    for (value, pods) in [("5", 5), ("1", 1)] {
        let patch = format!(r#"[{{"op": "replace", "path": "/spec/replicas", "value":{value}}}]"#);
        env.kubectl(&["patch", "podset", "podset-sample", "--type=json", "-p", &patch]).await.unwrap();
        let set = env.until_ready(&POD_SET, "default", "podset-sample").await;
        assert_eq!(set.data["status"]["availableReplicas"], pods);
        env.until_count(PODS, pods).await;
    }
    for value in [0, 11] {
        let patch = format!(r#"[{{"op": "replace", "path": "/spec/replicas", "value":{value}}}]"#);
        let refused = env.kubectl(&["patch", "podset", "podset-sample", "--type=json", "-p", &patch]).await;
        let refused = format!("{:#}", refused.unwrap_err());
        assert!(refused.contains("spec.replicas") && refused.contains("should be"), "{refused}");
    }

    env.kubectl(&["delete", "podset", "podset-sample"]).await.unwrap();
    env.until_empty(PODS).await;
    env.assert_no_forbidden_requests();
}

#[tokio::test]
async fn memcached_tutorial_works() {
    let env = tutorial().await;
    let replicas =
        async || env.read(&["get", "deployment", "memcached-sample"]).await["spec"]["replicas"].clone();
    env.kubectl(&["apply", "-f", &sample("memcached")]).await.unwrap();
    env.until_ready(&MEMCACHED, "default", "memcached-sample").await;
    assert_eq!(replicas().await, 3);

    let patch = r#"{"spec":{"size": 5}}"#;
    env.kubectl(&["patch", "memcached", "memcached-sample", "-p", patch, "--type", "merge"]).await.unwrap();
    env.until_ready(&MEMCACHED, "default", "memcached-sample").await;
    assert_eq!(replicas().await, 5);
    let shown = env.kubectl(&["get", "memcached", "memcached-sample", "-o", "jsonpath={.status}"]).await;
    let shown: Value = serde_json::from_str(&shown.unwrap()).unwrap();
    let pods = env.names(&["pods", "--selector=memcached_cr=memcached-sample"]).await;
    assert_eq!((pods.len(), &shown["nodes"]), (5, &Value::from(pods)));
    let table = env.table(&["memcacheds"]).await;
    assert_eq!(table[0], ["NAME", "SIZE", "READY", "AVAILABLE", "AGE"]);
    assert_eq!(table[1][..4], ["memcached-sample", "5", "5", "True"]);

    env.kubectl(&["delete", "memcached", "memcached-sample"]).await.unwrap();
    env.until_empty(&["deployments,services,poddisruptionbudgets,pods", "--selector=app=memcached"]).await;
    env.assert_no_forbidden_requests();
}

#[tokio::test]
async fn namespaceplus_tutorial_works() {
    let env = tutorial().await;
    env.kubectl(&["apply", "-f", &sample("namespaceplus")]).await.unwrap();
    let plus = env.until_ready(&NAMESPACE_PLUS, "default", "my-ns1").await;
    assert_eq!(plus.data["spec"]["foo"], "example");
    env.kubectl(&["get", "namespace", "my-ns1"]).await.unwrap();
    let quota = env.read(&["get", "resourcequota", "default-quota", "--namespace=my-ns1"]).await;
    assert_eq!(quota["spec"]["hard"], serde_json::json!({"cpu": "0", "memory": "0", "pods": "0"}));
    let table = env.table(&["nsp"]).await;
    assert_eq!(table[0], ["NAME", "NAMESPACE", "READY", "AGE"]);
    assert_eq!(table[1][..3], ["my-ns1", "my-ns1", "True"]);
    env.assert_no_forbidden_requests();
}

#[tokio::test]
async fn tenant_tutorial_works() {
    let env = tutorial().await;
    env.kubectl(&["apply", "-f", &sample("tenant")]).await.unwrap();
    env.until_ready(&TENANT, "", "oil").await;
    for namespace in ["oil-development", "oil-production"] {
        env.join("oil", namespace).await;
    }
    env.until_tenant_ready("oil", 2).await;
    for namespace in ["oil-development", "oil-production"] {
        assert_managed_objects(env, namespace).await;
    }
    let table = env.kubectl(&["get", "tenants"]).await.unwrap();
    let cells: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().take(6).collect();
    assert_eq!(cells, ["oil", "Active", "3", "2", r#"{"kubernetes.io/os":"linux"}"#, "True"], "{table}");
    env.assert_no_forbidden_requests();
}

async fn assert_managed_objects(env: &TestEnv, namespace: &str) {
    let inside = format!("--namespace={namespace}");
    for (kind, names) in [
        ("limitranges", &["capsule-oil-0"][..]),
        ("networkpolicies", &["capsule-oil-0"]),
        ("resourcequotas", &["capsule-oil-0", "capsule-oil-1", "capsule-oil-2"]),
    ] {
        assert_eq!(env.names(&[kind, &inside]).await, names, "{kind} of {namespace}");
    }
    let bindings = env.read(&["get", "rolebindings", &inside]).await;
    let mut given: Vec<_> = bindings["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|binding| (binding["subjects"][0]["name"].clone(), binding["roleRef"]["name"].clone()))
        .collect();
    given.sort_by_key(|(_, role)| role.to_string());
    let alice = |role: &str| (Value::from("alice"), Value::from(role));
    assert_eq!(given, [alice("admin"), alice("capsule-namespace-deleter")]);
    let object = env.read(&["get", "namespace", namespace]).await;
    let selector = &object["metadata"]["annotations"]["scheduler.alpha.kubernetes.io/node-selector"];
    assert_eq!(selector, "kubernetes.io/os=linux");
}
