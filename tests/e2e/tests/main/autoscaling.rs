//! HorizontalPodAutoscalers scale PodSets and Memcacheds through the scale subresource.

use cluster::TestNamespace;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use crate::support::{Kind, MEMCACHED, MetricsApi, POD_SET, TestEnv, tutorial};

/// An object with an autoscaler in its own namespace.
struct AutoscaledObject<'s> {
    env: &'s TestEnv,
    namespace: TestNamespace,
    kind: &'static Kind,
    /// Field of the spec that the scale subresource sets.
    field: &'static str,
}

impl<'s> AutoscaledObject<'s> {
    /// Creates the object `one` and its autoscaler with additional fields.
    async fn new(env: &'s TestEnv, kind: &'static Kind, field: &'static str, autoscaler: Value) -> Self {
        let namespace = env.cluster.namespace("autoscaling").await.unwrap();
        env.create(kind, &namespace, "one", json!({ field: 1 })).await;
        env.until_ready(kind, &namespace, "one").await;
        let mut spec = json!({
            "scaleTargetRef": { "apiVersion": kind.api_version(), "kind": kind.singular(), "name": "one" },
            "minReplicas": 1, "maxReplicas": 6,
            // The default is five minutes.
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
        });
        spec.as_object_mut().unwrap().extend(autoscaler.as_object().unwrap().clone());
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "one", "namespace": namespace.name() }, "spec": spec,
        });
        env.cluster.apply_yaml(&autoscaler.to_string()).await.unwrap();
        Self { env, namespace, kind, field }
    }

    /// Waits until this many Pods are ready.
    async fn until_scaled(&self, pods: usize) {
        let is_scaled = |object: &DynamicObject| {
            let status = &object.data["status"];
            object.data["spec"][self.field] == pods
                && status["observedGeneration"].as_i64() == object.metadata.generation
                && status["readyReplicas"] == pods
        };
        let what = format!("to be scaled to {pods}");
        self.env.until(self.kind, &self.namespace, "one", &what, is_scaled).await;
    }

    /// Asserts that the last change of the number of Pods used the scale subresource.
    async fn assert_scaled_by_subresource(&self) {
        let object = self.env.api(self.kind, &self.namespace).await.get("one").await.unwrap();
        let scaled: Vec<_> = object
            .managed_fields()
            .iter()
            .filter(|entry| entry.subresource.as_deref() == Some("scale"))
            .map(|entry| (entry.manager.as_deref(), entry.fields_v1.clone().unwrap().0))
            .collect();
        let field = json!({ "f:spec": { format!("f:{}", self.field): {} } });
        assert_eq!(scaled, [(Some("kube-controller-manager"), field)]);
    }
}

#[tokio::test]
async fn autoscaler_enforces_bounds_without_metrics() {
    let env = tutorial().await;
    for (kind, field) in [(&POD_SET, "replicas"), (&MEMCACHED, "size")] {
        let bounds = json!({ "minReplicas": 2, "maxReplicas": 3 });
        let scaled = AutoscaledObject::new(env, kind, field, bounds).await;
        scaled.until_scaled(2).await;
        env.change(kind, &scaled.namespace, "one", json!({ field: 6 })).await;
        scaled.until_scaled(3).await;
        scaled.assert_scaled_by_subresource().await;
    }
}

#[tokio::test]
async fn autoscaler_follows_load_up_and_down() {
    let env = TestEnv::complete().await;
    let _manager = env.start("manager", &env.account, &[]);
    let metrics = MetricsApi::start(&env).await;
    for (kind, field) in [(&POD_SET, "replicas"), (&MEMCACHED, "size")] {
        let target = json!({ "type": "AverageValue", "averageValue": "100m" });
        let load =
            json!({ "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": target } }] });
        let scaled = AutoscaledObject::new(&env, kind, field, load).await;
        for (thousandths, pods) in [(500, 5), (200, 2), (60, 1)] {
            metrics.load(&scaled.namespace, thousandths);
            scaled.until_scaled(pods).await;
        }
        scaled.assert_scaled_by_subresource().await;
        let inside = format!("--namespace={}", scaled.namespace.name());
        let autoscaler = env.read(&["get", "horizontalpodautoscaler", "one", &inside]).await;
        for type_ in ["AbleToScale", "ScalingActive"] {
            let mut conditions = autoscaler["status"]["conditions"].as_array().unwrap().iter();
            assert!(conditions.any(|one| one["type"] == type_ && one["status"] == "True"), "{autoscaler:#}");
        }
    }
}
