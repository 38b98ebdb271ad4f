//! The optional exporter and its Service.

use k8s_openapi::api::core::v1::{Container, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::TestEnv;

async fn containers(env: &TestEnv) -> Vec<Container> {
    let spec = env.deployments().get("web").await.unwrap().spec.unwrap();
    spec.template.spec.unwrap().containers
}

#[tokio::test]
async fn creates_updates_and_deletes_exporter_with_the_option() {
    let env = TestEnv::new().await;
    let without = {
        env.ready("web", 1).await;
        env.deployments().get("web").await.unwrap().spec
    };
    assert!(env.services().get_opt("web-metrics").await.unwrap().is_none());

    env.change("web", json!({"metrics": {}})).await;
    env.until_ready("web", 1).await;
    let exporter = &containers(&env).await[1];
    assert_eq!(exporter.name, "memcached-exporter");
    assert_eq!(exporter.image.as_deref(), Some("prom/memcached-exporter:v0.17.0"));
    let service = env.services().get("web-metrics").await.unwrap();
    let spec = serde_json::to_value(service.spec.unwrap()).unwrap();
    assert_eq!(
        (&spec["ports"][0]["name"], &spec["ports"][0]["port"], &spec["selector"]["memcached_cr"]),
        (&json!("metrics"), &json!(9150), &json!("web"))
    );

    env.change("web", json!({"metrics": {"port": 9999, "image": "mine:1"}})).await;
    env.until_ready("web", 1).await;
    let exporter = &containers(&env).await[1];
    assert_eq!(exporter.image.as_deref(), Some("mine:1"));
    assert_eq!(exporter.args.as_ref().unwrap()[1], "--web.listen-address=:9999");
    let service = env.services().get("web-metrics").await.unwrap();
    assert_eq!(service.metadata.annotations.unwrap()["prometheus.io/port"], "9999");

    env.change("web", json!({"metrics": null})).await;
    env.until_ready("web", 1).await;
    env.until_gone::<Service>("web-metrics").await;
    assert_eq!(env.deployments().get("web").await.unwrap().spec, without);
    assert!(env.services().get_opt("web").await.unwrap().is_some(), "the main Service stays");
}

#[tokio::test]
async fn metrics_service_lists_all_pods_including_unready_ones() {
    let env = TestEnv::new().await;
    env.create("web", json!({"size": 2, "metrics": {}})).await;
    env.until_ready("web", 2).await;
    let service = env.services().get("web-metrics").await.unwrap();
    assert_eq!(service.metadata.annotations.unwrap()["prometheus.io/scrape"], "true");
    let labels = service.metadata.labels.unwrap();
    assert_eq!(labels["app.kubernetes.io/component"], "metrics");
    assert_eq!(labels["app.kubernetes.io/instance"], "web");
    assert_eq!(service.spec.unwrap().publish_not_ready_addresses, Some(true));
    let targets = env.addresses("web-metrics").await;
    assert_eq!(targets, env.addresses("web").await);
}

#[tokio::test]
async fn reports_foreign_metrics_service_and_never_modifies_it() {
    let env = TestEnv::new().await;
    let theirs: Service = serde_json::from_value(json!({
        "metadata": {"name": "web-metrics"}, "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]},
    }))
    .unwrap();
    let before = env.services().create(&PostParams::default(), &theirs).await.unwrap();
    env.create("web", json!({"size": 1, "metrics": {}})).await;
    let message = env.until_condition("web", "Degraded", ("True", "NameConflict")).await;
    assert!(message.contains("web-metrics") && message.contains("delete or rename it"), "{message}");

    env.change("web", json!({"metrics": null})).await;
    env.until_ready("web", 1).await;
    assert_eq!(env.services().get("web-metrics").await.unwrap(), before);

    env.change("web", json!({"metrics": {}})).await;
    env.until_condition("web", "Degraded", ("True", "NameConflict")).await;
    env.services().delete("web-metrics", &DeleteParams::default()).await.unwrap();
    env.until_ready("web", 1).await;
}

#[tokio::test]
async fn reports_name_conflict_with_metrics_service_of_another() {
    let env = TestEnv::new().await;
    env.create("web", json!({"size": 1, "metrics": {}})).await;
    env.until_ready("web", 1).await;
    env.create("web-metrics", json!({"size": 1})).await;
    let message = env.until_condition("web-metrics", "Degraded", ("True", "NameConflict")).await;
    assert!(message.contains("its controller: Memcached web"), "{message}");
    env.until_ready("web", 1).await;
}

#[tokio::test]
async fn pod_with_exporter_meets_restricted_pod_security() {
    let env = TestEnv::labelled(&[("pod-security.kubernetes.io/enforce", "restricted")]).await;
    env.create("web", json!({"size": 1, "metrics": {}})).await;
    env.until_ready("web", 1).await;
}

#[tokio::test]
async fn reverts_drift_of_exporter_and_its_service() {
    let env = TestEnv::new().await;
    env.create("web", json!({"size": 1, "metrics": {}})).await;
    env.until_ready("web", 1).await;
    let exporter = "/spec/template/spec/containers/1";
    let replace = |path: &str, value: Value| json!({"op": "replace", "path": path, "value": value});
    let remove = |path: &str| json!({"op": "remove", "path": path});
    env.is_reverted(
        env.deployments(),
        "web",
        &[
            replace(&format!("{exporter}/image"), json!("other:1")),
            json!({"op": "add", "path": format!("{exporter}/command"), "value": ["sleep"]}),
            replace(&format!("{exporter}/args/0"), json!("--memcached.address=elsewhere:1")),
            replace(&format!("{exporter}/ports/0/containerPort"), json!(1)),
            replace(&format!("{exporter}/resources/limits/memory"), json!("1Gi")),
            remove(&format!("{exporter}/livenessProbe")),
            remove(&format!("{exporter}/securityContext")),
            remove(exporter),
        ],
    )
    .await;
    env.is_reverted(
        env.services(),
        "web-metrics",
        &[
            replace("/spec/ports/0/port", json!(1)),
            replace("/spec/ports/0/name", json!("other")),
            replace("/spec/selector", json!({"app": "other"})),
            remove("/spec/publishNotReadyAddresses"),
            remove("/metadata/labels/app.kubernetes.io~1component"),
            remove("/metadata/annotations/prometheus.io~1scrape"),
            replace("/metadata/annotations/prometheus.io~1port", json!("1")),
        ],
    )
    .await;
    env.services().delete("web-metrics", &DeleteParams::default()).await.unwrap();
    env.until::<Service>("web-metrics", "the Service to be recreated", |_| true).await;
    env.until_ready("web", 1).await;
}

#[tokio::test]
async fn keeps_foreign_sidecar_when_metrics_are_toggled() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    let theirs =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "proxy", "image": "proxy:1"}]}}}});
    env.deployments().patch("web", &PatchParams::default(), &Patch::Strategic(theirs)).await.unwrap();
    for metrics in [json!({}), json!(null)] {
        env.change("web", json!({"metrics": metrics})).await;
        env.until_ready("web", 1).await;
        assert!(containers(&env).await.iter().any(|container| container.name == "proxy"));
    }
}
