//! Scaling: the number of Pods follows the size.

use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::support::{World, status};

#[tokio::test]
async fn tutorial_walk_through_works() {
    let world = World::new().await;
    let sample = include_str!("../../../../samples/memcached.yaml");
    let manifest = sample.replace(
        "name: memcached-sample",
        &format!("name: memcached-sample\n  namespace: {}", world.namespace.name()),
    );
    world.harness.cluster.apply_yaml(&manifest).await.unwrap();
    world.until_ready("memcached-sample", 3).await;
    assert_eq!(replicas(&world).await, 3);

    let patch = r#"{"spec":{"size": 5}}"#;
    world.kubectl(&["patch", "memcached", "memcached-sample", "-p", patch, "--type", "merge"]).await.unwrap();
    world.until_ready("memcached-sample", 5).await;
    assert_eq!(replicas(&world).await, 5);

    let told =
        world.kubectl(&["get", "memcached", "memcached-sample", "-o", "jsonpath={.status}"]).await.unwrap();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let mut pods: Vec<_> = world
        .api::<Pod>()
        .list(&ListParams::default().labels("memcached_cr=memcached-sample"))
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    pods.sort();
    assert_eq!(pods.len(), 5);
    assert_eq!(told["nodes"], json!(pods));

    world.kubectl(&["delete", "memcached", "memcached-sample"]).await.unwrap();
    world.until_gone::<k8s_openapi::api::apps::v1::Deployment>("memcached-sample").await;
}

async fn replicas(world: &World) -> i32 {
    let spec = world.deployments().get("memcached-sample").await.unwrap().spec.unwrap();
    spec.replicas.unwrap()
}

#[tokio::test]
async fn endpoints_list_all_ready_pods() {
    let world = World::new().await;
    let cache = world.create("web", json!({"size": 2, "containerPort": 12000})).await;
    assert_eq!(cache.spec.memory_megabytes, 64, "the API server sets defaults");
    let status = status(&world.until_ready("web", 2).await);
    let pods = world.api::<Pod>().list(&ListParams::default()).await.unwrap();
    let mut expected: Vec<_> = pods
        .iter()
        .map(|pod| {
            let ip = pod.status.as_ref().unwrap().pod_ip.as_deref().unwrap().replace('.', "-");
            format!("{ip}.web.{}.svc:12000", world.namespace.name())
        })
        .collect();
    expected.sort();
    assert_eq!(status.endpoints, expected);
}

#[tokio::test]
async fn scale_subresource_works() {
    let world = World::new().await;
    world.ready("web", 1).await;
    world.kubectl(&["scale", "memcached", "web", "--replicas=2"]).await.unwrap();
    world.until_ready("web", 2).await;
    let scale = world.caches().get_scale("web").await.unwrap();
    let status = scale.status.unwrap();
    assert_eq!((scale.spec.unwrap().replicas, status.replicas), (Some(2), 2));
    assert_eq!(status.selector.as_deref(), Some("app=memcached,memcached_cr=web"));
    let selected =
        world.api::<Pod>().list(&ListParams::default().labels(&status.selector.unwrap())).await.unwrap();
    assert_eq!(selected.items.len(), 2);
}

#[tokio::test]
async fn kubectl_get_prints_columns_for_short_name() {
    let world = World::new().await;
    world.ready("web", 1).await;
    let table = world.kubectl(&["get", "mc", "web"]).await.unwrap();
    let words: Vec<_> = table.split_whitespace().take(9).collect();
    assert_eq!(words, ["NAME", "SIZE", "READY", "AVAILABLE", "AGE", "web", "1", "1", "True"]);
    let listed = world.kubectl(&["get", "ensemble", "-o", "name"]).await.unwrap();
    assert!(listed.contains("memcached.cache.example.com/web"), "{listed}");
}

#[tokio::test]
async fn creates_budget_for_two_pods_and_deletes_it_for_one() {
    let world = World::new().await;
    world.ready("web", 1).await;
    assert!(world.budgets().get_opt("web").await.unwrap().is_none());
    scale(&world, 2).await;
    let budget = world.budgets().get("web").await.unwrap();
    assert_eq!(serde_json::to_value(budget.spec.unwrap()).unwrap()["maxUnavailable"], 1);
    scale(&world, 1).await;
    world.until_gone::<PodDisruptionBudget>("web").await;
}

#[tokio::test]
async fn never_deletes_foreign_budget() {
    let world = World::new().await;
    let theirs = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "labels": {"app.kubernetes.io/managed-by": "ensemble"}},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "theirs"}}},
    });
    let apply = PatchParams::apply("somebody");
    world.budgets().patch("web", &apply, &Patch::Apply(&theirs)).await.unwrap();
    world.ready("web", 1).await;
    scale(&world, 0).await;
    assert!(world.budgets().get_opt("web").await.unwrap().is_some());
}

async fn scale(world: &World, size: i32) {
    let patch = json!({"spec": {"size": size}});
    world.caches().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    world.until_ready("web", size).await;
}

#[tokio::test]
async fn two_objects_never_share_a_pod() {
    let world = World::new().await;
    let (one, two) = tokio::join!(world.ready("web", 2), world.ready("web-blue", 2));
    let mut all = [status(&one).nodes, status(&two).nodes].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4);
}

#[tokio::test]
async fn spreads_pods_over_nodes() {
    let world = World::new().await;
    let cache = world.ready("web", 2).await;
    let mut nodes = Vec::new();
    for name in status(&cache).nodes {
        nodes.push(world.api::<Pod>().get(&name).await.unwrap().spec.unwrap().node_name.unwrap());
    }
    assert_ne!(nodes[0], nodes[1]);
}

#[tokio::test]
async fn pods_meet_restricted_pod_security() {
    let world = World::labelled(&[("pod-security.kubernetes.io/enforce", "restricted")]).await;
    world.ready("web", 1).await;
}

#[tokio::test]
async fn rolls_out_new_image_and_defaults_to_image_of_manager() {
    let world = World::new().await;
    world.ready("web", 2).await;
    assert_eq!(images(&world).await, ["memcached:1.4.36-alpine"; 2]);
    let patch = Patch::Merge(json!({"spec": {"image": "memcached:1.6-alpine"}}));
    world.caches().patch("web", &PatchParams::default(), &patch).await.unwrap();
    world.until_ready("web", 2).await;
    assert_eq!(images(&world).await, ["memcached:1.6-alpine"; 2]);
}

/// Returns the images of the Pods in `status.nodes`.
async fn images(world: &World) -> Vec<String> {
    let mut images = Vec::new();
    for name in status(&world.caches().get("web").await.unwrap()).nodes {
        let spec = world.api::<Pod>().get(&name).await.unwrap().spec.unwrap();
        images.push(spec.containers[0].image.clone().unwrap());
    }
    images
}
