//! A HorizontalPodAutoscaler scales by the CPU usage of real containers.

use crate::{
    manager::install,
    support::{Kubectl, shared},
};

const SIZE: &str = "get memcached cache -o jsonpath={.spec.size}:{.status.readyReplicas}";

#[tokio::test]
async fn autoscaler_raises_and_lowers_the_size_of_a_memcached_with_its_load() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "autoscaling").await;
    kubectl
        .apply(
            "
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: cache, namespace: NAMESPACE}
spec: {size: 1}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: cache, namespace: NAMESPACE}
spec:
  scaleTargetRef: {apiVersion: cache.example.com/v1alpha1, kind: Memcached, name: cache}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 10}}}]
  behavior:
    scaleUp: {stabilizationWindowSeconds: 0}
    scaleDown: {stabilizationWindowSeconds: 0}
",
        )
        .await;
    kubectl.run("wait --for=condition=Available memcached/cache --timeout=120s").await.unwrap();
    // One client repeats a request as fast as its limit of CPU allows.
    kubectl
        .apply(
            "
apiVersion: v1
kind: Pod
metadata: {name: load, namespace: NAMESPACE}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: load
      image: localhost/client:1
      command: [sh, -c, 'yes \"get a b c d e f g h\" | while :; do nc cache 11211; done > /dev/null']
      resources: {limits: {cpu: 200m}}
",
        )
        .await;
    kubectl.until(SIZE, |size| size == "3:3").await;
    kubectl.run("delete pod load --wait").await.unwrap();
    kubectl.until(SIZE, |size| size == "1:1").await;
    let active = r#"get hpa cache -o jsonpath={.status.conditions[?(@.type=="ScalingActive")].status}"#;
    assert_eq!(kubectl.run(active).await.unwrap(), "True");
}
