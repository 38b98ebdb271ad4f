//! Objects of every kind with `wait`, `status`, and `tree`.

use serde_json::{Value, json};

use super::{
    report::CANARY,
    run::{ctl, ctl_json},
};
use crate::support::{MEMCACHED, NAMESPACE, NAMESPACE_PLUS, POD_SET, QUICK, TENANT, TestEnv};

/// Creates the Deployment of the manager. Its Pod is simulated; the actual manager runs beside the
/// cluster.
pub(super) async fn deploy(env: &TestEnv) {
    let labels = json!({ "app.kubernetes.io/name": "ensemble", "app.kubernetes.io/component": "manager" });
    let args = [&["--leader-elect=true"], QUICK.as_slice()].concat();
    let restricted = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
    let pod = json!({
        "serviceAccountName": "ensemble-manager",
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{
            "name": "manager", "image": "example.com/ensemble-manager:1", "args": args, "securityContext": restricted,
            "env": [
                { "name": "POD_NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
                { "name": "PROXY_PASSWORD", "value": CANARY },
                { "name": "OTEL_EXPORTER_OTLP_HEADERS", "value": CANARY },
                { "name": "ENSEMBLE_LOG_LEVEL", "value": "info" },
            ],
        }],
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "ensemble-manager", "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels, "annotations": { "example.com/api-token": CANARY } }, "spec": pod },
        },
    });
    env.cluster.apply_yaml(&deployment.to_string()).await.unwrap();
    env.kubectl(&[
        "--namespace",
        NAMESPACE,
        "wait",
        "--for=condition=Available",
        "deployment/ensemble-manager",
    ])
    .await
    .unwrap();
}

/// Creates one object of each kind, with a secret in every field that a user can set.
pub(super) async fn create(env: &TestEnv) {
    let run = json!(["sh", "-c", format!("KEY={CANARY} run")]);
    let headers = json!([{ "name": "X-Auth", "value": CANARY }]);
    let container = json!({
        "name": "web", "image": "nginx", "command": run, "args": ["--token", CANARY, CANARY],
        "env": [{ "name": "DB_PASSWORD", "value": CANARY }, { "name": "SECRET_KEY_BASE", "value": CANARY }],
        "livenessProbe": { "exec": { "command": run } },
        "readinessProbe": { "httpGet": { "port": 80, "path": format!("/?key={CANARY}"), "httpHeaders": headers } },
        "lifecycle": { "preStop": { "exec": { "command": run } } },
    });
    let metadata = json!({ "labels": { "app": "web" }, "annotations": { "example.com/note": CANARY } });
    let template = json!({ "metadata": metadata, "spec": { "containers": [container] } });
    env.create(&POD_SET, "default", "web", json!({ "replicas": 2, "template": template })).await;
    env.create(&MEMCACHED, "default", "cache", json!({ "size": 1 })).await;
    let hook = json!({
        "name": "chat", "on": ["Deleted"], "url": format!("https://me:{CANARY}@hooks.example.com/services/{CANARY}?key={CANARY}"),
        "bodyTemplate": CANARY, "headersSecretRef": { "name": "chat" },
    });
    let blue = json!({ "foo": CANARY, "hooks": [hook], "annotations": { "example.com/api-token": CANARY } });
    env.create(&NAMESPACE_PLUS, "default", "blue", blue).await;
    let limits = json!({ "items": [{ "limits": [{ "type": "Container", "default": { "cpu": "1" } }] }] });
    env.create(&TENANT, "", "oil", json!({ "limitRanges": limits })).await;
    env.join("oil", "oil-wells").await;
}

/// Tests `wait` for conditions that become true and for ones that do not.
pub(super) fn wait(env: &TestEnv) {
    for object in ["podset/web", "memcached/cache", "nsp/blue", "tenant/oil"] {
        let output = ctl(env, &["wait", object, "--timeout=1m"]);
        assert!(output.code == 0 && output.out.ends_with("is Ready\n"), "{output:?}");
    }
    let output = ctl(env, &["wait", "podset", "web", "--for=Ready=False", "--timeout=100ms"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(
        output.err.contains("PodSet default/web is not Ready=False after 100ms: Ready is True"),
        "{output:?}"
    );
    let output = ctl(env, &["wait", "podset", "missing", "--timeout=100ms"]);
    assert!(output.code == 1 && output.err.contains("the object does not exist"), "{output:?}");
    let output = ctl(env, &["wait", "podset", "missing", "--for=deleted"]);
    assert!(output.code == 0, "{output:?}");
}

/// Tests `status` and `tree`.
pub(super) fn status_and_tree(env: &TestEnv) {
    let table = ctl(env, &["status"]).out;
    assert!(table.starts_with("KIND ") && !table.contains('\u{1b}'), "{table}");
    for kind in ["Memcached ", "NamespacePlus ", "PodSet ", "Tenant ", "CapsuleConfiguration "] {
        assert!(
            table.lines().any(|line| line.starts_with(kind) && line.contains(" True ")),
            "{kind}: {table}"
        );
    }
    let none = ctl(env, &["status", "podsets", "-n", "kube-system"]);
    assert_eq!(none.out, "no objects of Ensemble found in namespace kube-system\n");
    let listed = ctl_json(env, &["status", "ps", "-A"]);
    assert_eq!(
        (&listed["objects"][0]["name"], &listed["objects"][0]["ready"]),
        (&json!("web"), &json!("True"))
    );

    let one = ctl(env, &["status", "podset", "web"]).out;
    for part in [
        "PodSet default/web",
        "Controller: podset   Leader: ensemble",
        "Conditions\nTYPE",
        "Pod web-",
        "Events\nLAST SEEN",
    ] {
        assert!(one.contains(part), "{part}: {one}");
    }
    let unknown = ctl(env, &["status", "podset", "missing"]);
    assert!(
        unknown.code == 2 && unknown.err.contains("run `ensemblectl status podsets --namespace default`"),
        "{unknown:?}"
    );

    let kinds = |root: &Value| -> Vec<String> {
        let children = root["children"].as_array().unwrap().iter();
        children.map(|child| child["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&ctl_json(env, &["tree", "podset", "web"])), ["Pod", "Pod"]);
    let cache = ctl(env, &["tree", "memcached/cache"]).out;
    for part in [
        "Memcached default/cache  Ready\n",
        "─ Deployment cache",
        "─ ReplicaSet cache-",
        "─ Pod cache-",
        "─ Service cache",
    ] {
        assert!(cache.contains(part), "{part}: {cache}");
    }
    let blue = ctl_json(env, &["tree", "nsp/blue"]);
    assert_eq!(kinds(&blue), ["Namespace"]);
    assert_eq!(kinds(&blue["children"][0]), ["ResourceQuota"]);
    let oil = ctl_json(env, &["tree", "tenant", "oil"]);
    assert_eq!(oil["children"][0]["name"], "oil-wells", "{oil}");
    assert!(kinds(&oil["children"][0]).contains(&"LimitRange".to_owned()), "{oil}");
    let roles = ctl_json(env, &["tree", "capsuleconfiguration", "default"]);
    assert!(kinds(&roles).contains(&"ClusterRole".to_owned()), "{roles}");
}
