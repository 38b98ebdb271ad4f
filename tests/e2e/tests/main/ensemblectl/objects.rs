//! Objects of every kind: waited for, listed, shown one by one and as trees.

use serde_json::{Value, json};

use super::{
    report::CANARY,
    run::{ctl, ctl_json},
};
use crate::support::{MEMCACHED, NAMESPACE, NAMESPACE_PLUS, POD_SET, QUICK, Stage, TENANT};

/// A Deployment as the manager has it where it runs in the cluster. Its pod is simulated; the manager that works is
/// beside the cluster.
pub(super) async fn deploy(stage: &Stage) {
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
    stage.cluster.apply_yaml(&deployment.to_string()).await.unwrap();
    stage
        .kubectl(&[
            "--namespace",
            NAMESPACE,
            "wait",
            "--for=condition=Available",
            "deployment/ensemble-manager",
        ])
        .await
        .unwrap();
}

/// One of each, with something secret wherever a person can write it.
pub(super) async fn create(stage: &Stage) {
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
    stage.create(&POD_SET, "default", "web", json!({ "replicas": 2, "template": template })).await;
    stage.create(&MEMCACHED, "default", "cache", json!({ "size": 1 })).await;
    let hook = json!({
        "name": "chat", "on": ["Deleted"], "url": format!("https://me:{CANARY}@hooks.example.com/services/{CANARY}?key={CANARY}"),
        "bodyTemplate": CANARY, "headersSecretRef": { "name": "chat" },
    });
    let blue = json!({ "foo": CANARY, "hooks": [hook], "annotations": { "example.com/api-token": CANARY } });
    stage.create(&NAMESPACE_PLUS, "default", "blue", blue).await;
    let limits = json!({ "items": [{ "limits": [{ "type": "Container", "default": { "cpu": "1" } }] }] });
    stage.create(&TENANT, "", "oil", json!({ "limitRanges": limits })).await;
    stage.join("oil", "oil-wells").await;
}

/// `wait`, for what comes and for what does not.
pub(super) fn are_waited_for(stage: &Stage) {
    for object in ["podset/web", "memcached/cache", "nsp/blue", "tenant/oil"] {
        let said = ctl(stage, &["wait", object, "--timeout=1m"]);
        assert!(said.code == 0 && said.out.ends_with("is Ready\n"), "{said:?}");
    }
    let said = ctl(stage, &["wait", "podset", "web", "--for=Ready=False", "--timeout=100ms"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.err.contains("PodSet default/web is not Ready=False after 100ms: Ready is True"),
        "{said:?}"
    );
    let said = ctl(stage, &["wait", "podset", "nobody", "--timeout=100ms"]);
    assert!(said.code == 1 && said.err.contains("the object does not exist"), "{said:?}");
    let said = ctl(stage, &["wait", "podset", "nobody", "--for=deleted"]);
    assert!(said.code == 0, "{said:?}");
}

/// `status` and `tree`.
pub(super) fn are_shown(stage: &Stage) {
    let table = ctl(stage, &["status"]).out;
    assert!(table.starts_with("KIND ") && !table.contains('\u{1b}'), "{table}");
    for kind in ["Memcached ", "NamespacePlus ", "PodSet ", "Tenant ", "CapsuleConfiguration "] {
        assert!(
            table.lines().any(|line| line.starts_with(kind) && line.contains(" True ")),
            "{kind}: {table}"
        );
    }
    let none = ctl(stage, &["status", "podsets", "-n", "kube-system"]);
    assert_eq!(none.out, "no objects of Ensemble found in namespace kube-system\n");
    let listed = ctl_json(stage, &["status", "ps", "-A"]);
    assert_eq!(
        (&listed["objects"][0]["name"], &listed["objects"][0]["ready"]),
        (&json!("web"), &json!("True"))
    );

    let one = ctl(stage, &["status", "podset", "web"]).out;
    for part in [
        "PodSet default/web",
        "Controller: podset   Leader: ensemble",
        "Conditions\nTYPE",
        "Pod web-",
        "Events\nLAST SEEN",
    ] {
        assert!(one.contains(part), "{part}: {one}");
    }
    let unknown = ctl(stage, &["status", "podset", "nobody"]);
    assert!(
        unknown.code == 2 && unknown.err.contains("run `ensemblectl status podsets --namespace default`"),
        "{unknown:?}"
    );

    let kinds = |root: &Value| -> Vec<String> {
        let children = root["children"].as_array().unwrap().iter();
        children.map(|child| child["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&ctl_json(stage, &["tree", "podset", "web"])), ["Pod", "Pod"]);
    let cache = ctl(stage, &["tree", "memcached/cache"]).out;
    for part in [
        "Memcached default/cache  Ready\n",
        "─ Deployment cache",
        "─ ReplicaSet cache-",
        "─ Pod cache-",
        "─ Service cache",
    ] {
        assert!(cache.contains(part), "{part}: {cache}");
    }
    let blue = ctl_json(stage, &["tree", "nsp/blue"]);
    assert_eq!(kinds(&blue), ["Namespace"]);
    assert_eq!(kinds(&blue["children"][0]), ["ResourceQuota"]);
    let oil = ctl_json(stage, &["tree", "tenant", "oil"]);
    assert_eq!(oil["children"][0]["name"], "oil-wells", "{oil}");
    assert!(kinds(&oil["children"][0]).contains(&"LimitRange".to_owned()), "{oil}");
    let roles = ctl_json(stage, &["tree", "capsuleconfiguration", "default"]);
    assert!(kinds(&roles).contains(&"ClusterRole".to_owned()), "{roles}");
}
