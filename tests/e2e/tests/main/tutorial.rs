//! The walk-throughs of the tutorials, with the commands that people type.

use serde_json::Value;

use crate::support::{MEMCACHED, NAMESPACE_PLUS, POD_SET, Stage, TENANT, sample, tutorial};

#[tokio::test]
async fn a_podset_is_as_the_tutorial_says() {
    const PODS: &[&str] = &["pods", "--selector=app=podset-sample"];
    let stage = tutorial().await;
    stage.kubectl(&["apply", "-f", &sample("podset")]).await.unwrap();
    stage.until_settled(&POD_SET, "default", "podset-sample").await;
    let names = ["podset-sample-pod-1", "podset-sample-pod-2", "podset-sample-pod-3"];
    assert_eq!(stage.names(PODS).await, names);
    let shown = stage.kubectl(&["get", "podset", "podset-sample", "-o", "yaml"]).await.unwrap();
    let pod_names = names.map(|name| format!("  - {name}\n")).concat();
    assert!(shown.contains("  availableReplicas: 3\n"), "{shown}");
    assert!(shown.contains(&format!("  podNames:\n{pod_names}")), "{shown}");
    let table = stage.table(&["podsets"]).await;
    assert_eq!(table[0], ["NAME", "DESIRED", "AVAILABLE", "READY", "AGE"]);
    assert_eq!(table[1][..4], ["podset-sample", "3", "3", "3"]);

    for (value, pods) in [("5", 5), ("1", 1)] {
        let patch = format!(r#"[{{"op": "replace", "path": "/spec/replicas", "value":{value}}}]"#);
        stage.kubectl(&["patch", "podset", "podset-sample", "--type=json", "-p", &patch]).await.unwrap();
        let set = stage.until_settled(&POD_SET, "default", "podset-sample").await;
        assert_eq!(set.data["status"]["availableReplicas"], pods);
        stage.until_count(PODS, pods).await;
    }
    for value in [0, 11] {
        let patch = format!(r#"[{{"op": "replace", "path": "/spec/replicas", "value":{value}}}]"#);
        let refused = stage.kubectl(&["patch", "podset", "podset-sample", "--type=json", "-p", &patch]).await;
        let refused = format!("{:#}", refused.unwrap_err());
        assert!(refused.contains("spec.replicas") && refused.contains("should be"), "{refused}");
    }

    stage.kubectl(&["delete", "podset", "podset-sample"]).await.unwrap();
    stage.until_none(PODS).await;
    stage.assert_nothing_was_forbidden();
}

#[tokio::test]
async fn a_memcached_is_as_the_tutorial_says() {
    let stage = tutorial().await;
    let replicas =
        async || stage.read(&["get", "deployment", "memcached-sample"]).await["spec"]["replicas"].clone();
    stage.kubectl(&["apply", "-f", &sample("memcached")]).await.unwrap();
    stage.until_settled(&MEMCACHED, "default", "memcached-sample").await;
    assert_eq!(replicas().await, 3);

    let patch = r#"{"spec":{"size": 5}}"#;
    stage.kubectl(&["patch", "memcached", "memcached-sample", "-p", patch, "--type", "merge"]).await.unwrap();
    stage.until_settled(&MEMCACHED, "default", "memcached-sample").await;
    assert_eq!(replicas().await, 5);
    let shown = stage.kubectl(&["get", "memcached", "memcached-sample", "-o", "jsonpath={.status}"]).await;
    let shown: Value = serde_json::from_str(&shown.unwrap()).unwrap();
    let pods = stage.names(&["pods", "--selector=memcached_cr=memcached-sample"]).await;
    assert_eq!((pods.len(), &shown["nodes"]), (5, &Value::from(pods)));
    let table = stage.table(&["memcacheds"]).await;
    assert_eq!(table[0], ["NAME", "SIZE", "READY", "AVAILABLE", "AGE"]);
    assert_eq!(table[1][..4], ["memcached-sample", "5", "5", "True"]);

    stage.kubectl(&["delete", "memcached", "memcached-sample"]).await.unwrap();
    stage.until_none(&["deployments,services,poddisruptionbudgets,pods", "--selector=app=memcached"]).await;
    stage.assert_nothing_was_forbidden();
}

#[tokio::test]
async fn a_namespaceplus_is_as_the_tutorial_says() {
    let stage = tutorial().await;
    stage.kubectl(&["apply", "-f", &sample("namespaceplus")]).await.unwrap();
    let plus = stage.until_settled(&NAMESPACE_PLUS, "default", "my-ns1").await;
    assert_eq!(plus.data["spec"]["foo"], "example");
    stage.kubectl(&["get", "namespace", "my-ns1"]).await.unwrap();
    let quota = stage.read(&["get", "resourcequota", "default-quota", "--namespace=my-ns1"]).await;
    assert_eq!(quota["spec"]["hard"], serde_json::json!({"cpu": "0", "memory": "0", "pods": "0"}));
    let table = stage.table(&["nsp"]).await;
    assert_eq!(table[0], ["NAME", "NAMESPACE", "READY", "AGE"]);
    assert_eq!(table[1][..3], ["my-ns1", "my-ns1", "True"]);
    stage.assert_nothing_was_forbidden();
}

#[tokio::test]
async fn a_tenant_is_as_the_tutorial_says() {
    let stage = tutorial().await;
    stage.kubectl(&["apply", "-f", &sample("tenant")]).await.unwrap();
    stage.until_settled(&TENANT, "", "oil").await;
    for namespace in ["oil-development", "oil-production"] {
        stage.join("oil", namespace).await;
    }
    stage.until_joined("oil", 2).await;
    for namespace in ["oil-development", "oil-production"] {
        carries_everything(stage, namespace).await;
    }
    let table = stage.kubectl(&["get", "tenants"]).await.unwrap();
    let words: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().take(6).collect();
    assert_eq!(words, ["oil", "Active", "3", "2", r#"{"kubernetes.io/os":"linux"}"#, "True"], "{table}");
    stage.assert_nothing_was_forbidden();
}

async fn carries_everything(stage: &Stage, namespace: &str) {
    let inside = format!("--namespace={namespace}");
    for (kind, names) in [
        ("limitranges", &["capsule-oil-0"][..]),
        ("networkpolicies", &["capsule-oil-0"]),
        ("resourcequotas", &["capsule-oil-0", "capsule-oil-1", "capsule-oil-2"]),
    ] {
        assert_eq!(stage.names(&[kind, &inside]).await, names, "{kind} of {namespace}");
    }
    let bindings = stage.read(&["get", "rolebindings", &inside]).await;
    let mut given: Vec<_> = bindings["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|binding| (binding["subjects"][0]["name"].clone(), binding["roleRef"]["name"].clone()))
        .collect();
    given.sort_by_key(|(_, role)| role.to_string());
    let alice = |role: &str| (Value::from("alice"), Value::from(role));
    assert_eq!(given, [alice("admin"), alice("capsule-namespace-deleter")]);
    let object = stage.read(&["get", "namespace", namespace]).await;
    let selector = &object["metadata"]["annotations"]["scheduler.alpha.kubernetes.io/node-selector"];
    assert_eq!(selector, "kubernetes.io/os=linux");
}
