//! Drift in managed fields is reverted; fields of others stay.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::World;

#[tokio::test]
async fn reverts_drift_of_deployment() {
    let world = World::new().await;
    world.ready("web", 2).await;
    let container = "/spec/template/spec/containers/0";
    let replace = |path: &str, value: Value| json!({"op": "replace", "path": path, "value": value});
    let remove = |path: &str| json!({"op": "remove", "path": path});
    world
        .is_put_right(
            world.deployments(),
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
    world.until_ready("web", 2).await;
}

#[tokio::test]
async fn reverts_drift_of_service_and_budget() {
    let world = World::new().await;
    world.ready("web", 2).await;
    world
        .is_put_right(
            world.services(),
            "web",
            &[
                json!({"op": "replace", "path": "/spec/ports/0/port", "value": 1}),
                json!({"op": "replace", "path": "/spec/selector", "value": {"app": "other"}}),
                json!({"op": "remove", "path": "/metadata/labels/app"}),
            ],
        )
        .await;
    world
        .is_put_right(
            world.budgets(),
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
    let world = World::new().await;
    world.ready("web", 2).await;
    let params = DeleteParams::default();
    world.services().delete("web", &params).await.unwrap();
    world.budgets().delete("web", &params).await.unwrap();
    world.deployments().delete("web", &params).await.unwrap();
    world.until::<k8s_openapi::api::core::v1::Service>("web", "the Service to be recreated", |_| true).await;
    world
        .until::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(
            "web",
            "the budget to be recreated",
            |_| true,
        )
        .await;
    world.until::<Deployment>("web", "the Deployment to be recreated", |_| true).await;
    world.until_ready("web", 2).await;
}

#[tokio::test]
async fn keeps_foreign_fields_on_update() {
    let world = World::new().await;
    world.ready("web", 1).await;
    let theirs = json!({
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "kept"}},
        "spec": {"template": {
            "metadata": {"labels": {"tier": "b"}, "annotations": {"example.com/restarted": "once"}},
            "spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"key": "cache", "operator": "Exists"}]},
        }},
    });
    world.deployments().patch("web", &PatchParams::default(), &Patch::Merge(&theirs)).await.unwrap();
    let patch = json!({"spec": {"size": 2, "memoryMegabytes": 128}});
    world.caches().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    world.until_ready("web", 2).await;
    let now = serde_json::to_value(world.deployments().get("web").await.unwrap()).unwrap();
    assert_eq!(now["metadata"]["labels"]["team"], "a");
    assert_eq!(now["metadata"]["annotations"]["note"], "kept");
    let template = &now["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["tier"], "b");
    assert_eq!(template["metadata"]["annotations"]["example.com/restarted"], "once");
    assert_eq!(template["spec"]["nodeSelector"]["kubernetes.io/os"], "linux");
    assert_eq!(template["spec"]["tolerations"][0]["key"], "cache");
    assert_eq!(template["spec"]["containers"][0]["command"][2], "128");
}
