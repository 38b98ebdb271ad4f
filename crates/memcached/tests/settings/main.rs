//! Settings of the manager apply to fields that a Memcached leaves unset. Settings are
//! process-wide, so this test has its own process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use cluster::wait::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::PostParams};
use memcached::{EXPORTER_IMAGE, IMAGE, Memcached, MemcachedController};
use operator_core::environment::Settings;
use serde_json::{Value, json};

#[tokio::test]
async fn manager_settings_are_defaults_for_images() {
    let settings = [(IMAGE.flag, "registry.example.com/memcached:1"), (EXPORTER_IMAGE.flag, "exporter:1")];
    let settings: Settings = settings.map(|(flag, value)| (flag, value.to_owned())).into();
    let harness = harness::controller_with::<MemcachedController>(settings).await.unwrap();
    let namespace = harness.cluster.namespace("settings").await.unwrap();
    let client = harness.cluster.client().await.unwrap();
    let caches = Api::<Memcached>::namespaced(client.clone(), &namespace);
    let deployments = Api::<Deployment>::namespaced(client, &namespace);
    let images = async |name: &str, spec: Value| {
        let cache = json!({
            "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "metadata": {"name": name}, "spec": spec,
        });
        caches.create(&PostParams::default(), &serde_json::from_value(cache).unwrap()).await.unwrap();
        let made = eventually("the Deployment to be created", Duration::from_secs(30), async || {
            Ok(deployments.get_opt(name).await?)
        });
        let containers = made.await.unwrap().spec.unwrap().template.spec.unwrap().containers;
        containers.into_iter().map(|container| container.image.unwrap()).collect::<Vec<_>>()
    };
    let of_the_manager = images("plain", json!({"metrics": {}})).await;
    assert_eq!(of_the_manager, ["registry.example.com/memcached:1", "exporter:1"]);
    let of_its_own = images("own", json!({"image": "mine:1", "metrics": {"image": "mine:2"}})).await;
    assert_eq!(of_its_own, ["mine:1", "mine:2"]);
    assert_eq!((IMAGE.env, EXPORTER_IMAGE.env), ("MEMCACHED_IMAGE", "MEMCACHED_EXPORTER_IMAGE"));
}
