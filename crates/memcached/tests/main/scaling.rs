//! Scaling: the number of Pods follows the size.

use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::support::{TestEnv, status};

#[tokio::test]
async fn tutorial_walk_through_works() {
    let env = TestEnv::new().await;
    let sample = include_str!("../../../../samples/memcached.yaml");
    let manifest = sample.replace(
        "name: memcached-sample",
        &format!("name: memcached-sample\n  namespace: {}", env.namespace.name()),
    );
    env.harness.cluster.apply_yaml(&manifest).await.unwrap();
    env.until_ready("memcached-sample", 3).await;
    assert_eq!(replicas(&env).await, 3);

    let patch = r#"{"spec":{"size": 5}}"#;
    env.kubectl(&["patch", "memcached", "memcached-sample", "-p", patch, "--type", "merge"]).await.unwrap();
    env.until_ready("memcached-sample", 5).await;
    assert_eq!(replicas(&env).await, 5);

    let status =
        env.kubectl(&["get", "memcached", "memcached-sample", "-o", "jsonpath={.status}"]).await.unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let mut pods: Vec<_> = env
        .api::<Pod>()
        .list(&ListParams::default().labels("memcached_cr=memcached-sample"))
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    pods.sort();
    assert_eq!(pods.len(), 5);
    assert_eq!(status["nodes"], json!(pods));

    env.kubectl(&["delete", "memcached", "memcached-sample"]).await.unwrap();
    env.until_gone::<k8s_openapi::api::apps::v1::Deployment>("memcached-sample").await;
}

async fn replicas(env: &TestEnv) -> i32 {
    let spec = env.deployments().get("memcached-sample").await.unwrap().spec.unwrap();
    spec.replicas.unwrap()
}

#[tokio::test]
async fn endpoints_list_all_ready_pods() {
    let env = TestEnv::new().await;
    let cache = env.create("web", json!({"size": 2, "containerPort": 12000})).await;
    assert_eq!(cache.spec.memory_megabytes, 64, "the API server sets defaults");
    let status = status(&env.until_ready("web", 2).await);
    let pods = env.api::<Pod>().list(&ListParams::default()).await.unwrap();
    let mut expected: Vec<_> = pods
        .iter()
        .map(|pod| {
            let ip = pod.status.as_ref().unwrap().pod_ip.as_deref().unwrap().replace('.', "-");
            format!("{ip}.web.{}.svc:12000", env.namespace.name())
        })
        .collect();
    expected.sort();
    assert_eq!(status.endpoints, expected);
}

#[tokio::test]
async fn scale_subresource_works() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    env.kubectl(&["scale", "memcached", "web", "--replicas=2"]).await.unwrap();
    env.until_ready("web", 2).await;
    let scale = env.caches().get_scale("web").await.unwrap();
    let status = scale.status.unwrap();
    assert_eq!((scale.spec.unwrap().replicas, status.replicas), (Some(2), 2));
    assert_eq!(status.selector.as_deref(), Some("app=memcached,memcached_cr=web"));
    let selected =
        env.api::<Pod>().list(&ListParams::default().labels(&status.selector.unwrap())).await.unwrap();
    assert_eq!(selected.items.len(), 2);
}

#[tokio::test]
async fn kubectl_get_prints_columns_for_short_name() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    let table = env.kubectl(&["get", "mc", "web"]).await.unwrap();
    let words: Vec<_> = table.split_whitespace().take(9).collect();
    assert_eq!(words, ["NAME", "SIZE", "READY", "AVAILABLE", "AGE", "web", "1", "1", "True"]);
    let listed = env.kubectl(&["get", "ensemble", "-o", "name"]).await.unwrap();
    assert!(listed.contains("memcached.cache.example.com/web"), "{listed}");
}

#[tokio::test]
async fn creates_budget_for_two_pods_and_deletes_it_for_one() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    assert!(env.budgets().get_opt("web").await.unwrap().is_none());
    scale(&env, 2).await;
    let budget = env.budgets().get("web").await.unwrap();
    assert_eq!(serde_json::to_value(budget.spec.unwrap()).unwrap()["maxUnavailable"], 1);
    scale(&env, 1).await;
    env.until_gone::<PodDisruptionBudget>("web").await;
}

#[tokio::test]
async fn never_deletes_foreign_budget() {
    let env = TestEnv::new().await;
    let theirs = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "labels": {"app.kubernetes.io/managed-by": "ensemble"}},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "theirs"}}},
    });
    let apply = PatchParams::apply("somebody");
    env.budgets().patch("web", &apply, &Patch::Apply(&theirs)).await.unwrap();
    env.ready("web", 1).await;
    scale(&env, 0).await;
    assert!(env.budgets().get_opt("web").await.unwrap().is_some());
}

async fn scale(env: &TestEnv, size: i32) {
    let patch = json!({"spec": {"size": size}});
    env.caches().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    env.until_ready("web", size).await;
}

#[tokio::test]
async fn two_objects_never_share_a_pod() {
    let env = TestEnv::new().await;
    let (one, two) = tokio::join!(env.ready("web", 2), env.ready("web-blue", 2));
    let mut all = [status(&one).nodes, status(&two).nodes].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4);
}

#[tokio::test]
async fn spreads_pods_over_nodes() {
    let env = TestEnv::new().await;
    let cache = env.ready("web", 2).await;
    let mut nodes = Vec::new();
    for name in status(&cache).nodes {
        nodes.push(env.api::<Pod>().get(&name).await.unwrap().spec.unwrap().node_name.unwrap());
    }
    assert_ne!(nodes[0], nodes[1]);
}

#[tokio::test]
async fn pods_meet_restricted_pod_security() {
    let env = TestEnv::labelled(&[("pod-security.kubernetes.io/enforce", "restricted")]).await;
    env.ready("web", 1).await;
}

#[tokio::test]
async fn rolls_out_new_image_and_defaults_to_image_of_manager() {
    let env = TestEnv::new().await;
    env.ready("web", 2).await;
    assert_eq!(images(&env).await, ["memcached:1.4.36-alpine"; 2]);
    let patch = Patch::Merge(json!({"spec": {"image": "memcached:1.6-alpine"}}));
    env.caches().patch("web", &PatchParams::default(), &patch).await.unwrap();
    env.until_ready("web", 2).await;
    assert_eq!(images(&env).await, ["memcached:1.6-alpine"; 2]);
}

/// Returns the images of the Pods in `status.nodes`.
async fn images(env: &TestEnv) -> Vec<String> {
    let mut images = Vec::new();
    for name in status(&env.caches().get("web").await.unwrap()).nodes {
        let spec = env.api::<Pod>().get(&name).await.unwrap().spec.unwrap();
        images.push(spec.containers[0].image.clone().unwrap());
    }
    images
}
