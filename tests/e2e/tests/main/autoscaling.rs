//! The autoscaler of Kubernetes itself scales what the manager runs, by their scale subresources.

use cluster::TestNamespace;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use crate::support::{Kind, MEMCACHED, MetricsApi, POD_SET, Stage, tutorial};

/// Something of one kind in a namespace of its own, with an autoscaler.
struct Scaled<'s> {
    stage: &'s Stage,
    namespace: TestNamespace,
    kind: &'static Kind,
    /// The field of the spec that the scale subresource sets.
    field: &'static str,
}

impl<'s> Scaled<'s> {
    /// `one` and its autoscaler, which has these further fields.
    async fn new(stage: &'s Stage, kind: &'static Kind, field: &'static str, autoscaler: Value) -> Self {
        let namespace = stage.cluster.namespace("autoscaling").await.unwrap();
        stage.create(kind, &namespace, "one", json!({ field: 1 })).await;
        stage.until_settled(kind, &namespace, "one").await;
        let mut spec = json!({
            "scaleTargetRef": { "apiVersion": kind.api_version(), "kind": kind.singular(), "name": "one" },
            "minReplicas": 1, "maxReplicas": 6,
            // At once, instead of after five minutes.
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
        });
        spec.as_object_mut().unwrap().extend(autoscaler.as_object().unwrap().clone());
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "one", "namespace": namespace.name() }, "spec": spec,
        });
        stage.cluster.apply_yaml(&autoscaler.to_string()).await.unwrap();
        Self { stage, namespace, kind, field }
    }

    /// Waits until it has been scaled to so many pods, and they are ready.
    async fn until_scaled(&self, pods: usize) {
        let is_scaled = |object: &DynamicObject| {
            let status = &object.data["status"];
            object.data["spec"][self.field] == pods
                && status["observedGeneration"].as_i64() == object.metadata.generation
                && status["readyReplicas"] == pods
        };
        let what = format!("to be scaled to {pods}");
        self.stage.until(self.kind, &self.namespace, "one", &what, is_scaled).await;
    }

    /// Holds the last change of the number of pods to having gone through the scale subresource.
    async fn assert_scaled_by_subresource(&self) {
        let object = self.stage.api(self.kind, &self.namespace).await.get("one").await.unwrap();
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
async fn an_autoscaler_keeps_a_podset_and_a_memcached_within_bounds_without_any_metrics() {
    let stage = tutorial().await;
    for (kind, field) in [(&POD_SET, "replicas"), (&MEMCACHED, "size")] {
        let bounds = json!({ "minReplicas": 2, "maxReplicas": 3 });
        let scaled = Scaled::new(stage, kind, field, bounds).await;
        scaled.until_scaled(2).await;
        stage.change(kind, &scaled.namespace, "one", json!({ field: 6 })).await;
        scaled.until_scaled(3).await;
        scaled.assert_scaled_by_subresource().await;
    }
}

#[tokio::test]
async fn an_autoscaler_follows_the_load_of_a_podset_and_a_memcached_up_and_down() {
    let stage = Stage::complete().await;
    let _manager = stage.start("manager", &stage.account, &[]);
    let metrics = MetricsApi::start(&stage).await;
    for (kind, field) in [(&POD_SET, "replicas"), (&MEMCACHED, "size")] {
        let target = json!({ "type": "AverageValue", "averageValue": "100m" });
        let load =
            json!({ "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": target } }] });
        let scaled = Scaled::new(&stage, kind, field, load).await;
        for (thousandths, pods) in [(500, 5), (200, 2), (60, 1)] {
            metrics.load(&scaled.namespace, thousandths);
            scaled.until_scaled(pods).await;
        }
        scaled.assert_scaled_by_subresource().await;
        let inside = format!("--namespace={}", scaled.namespace.name());
        let autoscaler = stage.read(&["get", "horizontalpodautoscaler", "one", &inside]).await;
        for type_ in ["AbleToScale", "ScalingActive"] {
            let mut conditions = autoscaler["status"]["conditions"].as_array().unwrap().iter();
            assert!(conditions.any(|one| one["type"] == type_ && one["status"] == "True"), "{autoscaler:#}");
        }
    }
}
