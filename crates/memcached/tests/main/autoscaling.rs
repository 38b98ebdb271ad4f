//! Autoscalers: those of the Memcached write `spec.size`; those of the Deployment write its
//! `spec.replicas`.

use k8s_openapi::api::{
    apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, policy::v1::PodDisruptionBudget,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use memcached::Memcached;
use operator_core::conditions::find;
use serde_json::{Value, json};

use crate::support::{TestEnv, status};

fn autoscalers(env: &TestEnv) -> Api<HorizontalPodAutoscaler> {
    env.api()
}

/// Creates an autoscaler. Without metrics it changes nothing between its bounds.
async fn autoscale(env: &TestEnv, target: Value) {
    let autoscaler = json!({
        "metadata": {"name": "busy"},
        "spec": {
            "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
            }}],
        },
    });
    let autoscaler = serde_json::from_value(autoscaler).unwrap();
    autoscalers(env).create(&PostParams::default(), &autoscaler).await.unwrap();
}

/// Scales the Deployment as an autoscaler does.
async fn scale_deployment(env: &TestEnv, replicas: i32) {
    let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    env.deployments().patch_scale("web", &PatchParams::default(), &scale).await.unwrap();
}

fn ready_message(cache: &Memcached) -> String {
    find(&status(cache).conditions, "Ready").unwrap().message.clone()
}

#[tokio::test]
async fn respects_autoscaler_of_deployment_and_reports_it() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    autoscale(&env, json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})).await;
    env.until("web", "the autoscaler to appear in the status", |cache: &Memcached| {
        ready_message(cache).contains("HorizontalPodAutoscaler busy")
    })
    .await;

    scale_deployment(&env, 4).await;
    let cache = env.until_ready("web", 4).await;
    assert_eq!(status(&cache).endpoints.len(), 4);
    assert!(ready_message(&cache).starts_with("4 of 4 pods are ready"), "{}", ready_message(&cache));
    env.until::<PodDisruptionBudget>("web", "a budget for the additional Pods", |_| true).await;

    // Changes of the Memcached and drift are handled as usual. The replicas stay.
    env.change("web", json!({"memoryMegabytes": 128})).await;
    env.until_ready("web", 4).await;
    let patches = [json!({"op": "replace", "path": "/spec/strategy", "value": {"type": "Recreate"}})];
    env.is_reverted(env.deployments(), "web", &patches).await;
    assert_eq!(env.until_ready("web", 4).await.spec.size, 1);

    autoscalers(&env).delete("busy", &DeleteParams::default()).await.unwrap();
    let cache = env.until_ready("web", 1).await;
    assert_eq!(ready_message(&cache), "1 of 1 pods are ready");
    env.until_gone::<PodDisruptionBudget>("web").await;
}

#[tokio::test]
async fn follows_autoscaler_of_memcached() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    let target = json!({"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "name": "web"});
    autoscale(&env, target).await;
    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    env.caches().patch_scale("web", &PatchParams::default(), &scale).await.unwrap();
    assert_eq!(env.until_ready("web", 3).await.spec.size, 3);

    // The manifest does not set the size, so applying it again does not change it.
    let manifest = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "metadata": {"name": "web"},
        "spec": {"memoryMegabytes": 128},
    });
    let params = PatchParams::apply("a person").force();
    env.caches().patch("web", &params, &Patch::Apply(&manifest)).await.unwrap();
    assert_eq!(env.until_ready("web", 3).await.spec.size, 3);

    // Nobody else may scale the Deployment.
    scale_deployment(&env, 5).await;
    let at = |replicas| move |found: &Deployment| found.spec.as_ref().unwrap().replicas == Some(replicas);
    env.until("web", "the replicas to be restored", at(3)).await;
}
