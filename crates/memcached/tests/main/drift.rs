//! Drift in managed fields is reverted; fields of others stay.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::TestEnv;

#[tokio::test]
async fn reverts_drift_of_deployment() {
    let env = TestEnv::new().await;
    env.ready("web", 2).await;
    let container = "/spec/template/spec/containers/0";
    let replace = |path: &str, value: Value| json!({"op": "replace", "path": path, "value": value});
    let remove = |path: &str| json!({"op": "remove", "path": path});
    env.is_reverted(
        env.deployments(),
        "web",
        &[
            replace("/spec/replicas", json!(4)),
            replace(&format!("{container}/image"), json!("memcached:latest")),
            replace(&format!("{container}/command"), json!(["sleep"])),
            json!({"op": "add", "path": format!("{container}/args"), "value": ["-vv"]}),
            replace(&format!("{container}/ports/0/containerPort"), json!(1)),
            replace(&format!("{container}/resources/limits/memory"), json!("1Gi")),
            remove(&format!("{container}/readinessProbe")),
            replace(&format!("{container}/livenessProbe/periodSeconds"), json!(99)),
            remove(&format!("{container}/lifecycle")),
            remove(&format!("{container}/securityContext")),
            replace("/spec/template/spec/securityContext/runAsUser", json!(0)),
            remove("/spec/template/spec/topologySpreadConstraints"),
            replace("/spec/strategy", json!({"type": "Recreate"})),
            remove("/metadata/labels/memcached_cr"),
            // Without this label, the informer no longer sees the Deployment.
            remove("/metadata/labels/app.kubernetes.io~1managed-by"),
        ],
    )
    .await;
    env.until_ready("web", 2).await;
}

#[tokio::test]
async fn reverts_drift_of_service_and_budget() {
    let env = TestEnv::new().await;
    env.ready("web", 2).await;
    env.is_reverted(
        env.services(),
        "web",
        &[
            json!({"op": "replace", "path": "/spec/ports/0/port", "value": 1}),
            json!({"op": "replace", "path": "/spec/selector", "value": {"app": "other"}}),
            json!({"op": "remove", "path": "/metadata/labels/app"}),
        ],
    )
    .await;
    env.is_reverted(
        env.budgets(),
        "web",
        &[
            json!({"op": "replace", "path": "/spec/maxUnavailable", "value": 2}),
            json!({"op": "replace", "path": "/spec/selector/matchLabels/app", "value": "other"}),
        ],
    )
    .await;
}

#[tokio::test]
async fn recreates_deleted_objects() {
    let env = TestEnv::new().await;
    env.ready("web", 2).await;
    let params = DeleteParams::default();
    env.services().delete("web", &params).await.unwrap();
    env.budgets().delete("web", &params).await.unwrap();
    env.deployments().delete("web", &params).await.unwrap();
    env.until::<k8s_openapi::api::core::v1::Service>("web", "the Service to be recreated", |_| true).await;
    env.until::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(
        "web",
        "the budget to be recreated",
        |_| true,
    )
    .await;
    env.until::<Deployment>("web", "the Deployment to be recreated", |_| true).await;
    env.until_ready("web", 2).await;
}

#[tokio::test]
async fn keeps_foreign_fields_on_update() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    let theirs = json!({
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "kept"}},
        "spec": {"template": {
            "metadata": {"labels": {"tier": "b"}, "annotations": {"example.com/restarted": "once"}},
            "spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"key": "cache", "operator": "Exists"}]},
        }},
    });
    env.deployments().patch("web", &PatchParams::default(), &Patch::Merge(&theirs)).await.unwrap();
    let patch = json!({"spec": {"size": 2, "memoryMegabytes": 128}});
    env.caches().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    env.until_ready("web", 2).await;
    let now = serde_json::to_value(env.deployments().get("web").await.unwrap()).unwrap();
    assert_eq!(now["metadata"]["labels"]["team"], "a");
    assert_eq!(now["metadata"]["annotations"]["note"], "kept");
    let template = &now["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["tier"], "b");
    assert_eq!(template["metadata"]["annotations"]["example.com/restarted"], "once");
    assert_eq!(template["spec"]["nodeSelector"]["kubernetes.io/os"], "linux");
    assert_eq!(template["spec"]["tolerations"][0]["key"], "cache");
    assert_eq!(template["spec"]["containers"][0]["command"][2], "128");
}
