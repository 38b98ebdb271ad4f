//! Controllers and simulated nodes of a cluster.

use cluster::wait;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::runtime::conditions::{is_job_completed, is_pod_running};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::PATIENCE;

fn pod(annotations: &serde_json::Value) -> Pod {
    let containers = json!([{ "name": "main", "image": "example.com/none" }]);
    serde_json::from_value(json!({ "metadata": { "name": "one", "annotations": annotations }, "spec": { "containers": containers } })).unwrap()
}

fn is_ready(wanted: &'static str) -> impl Fn(Option<&Pod>) -> bool {
    move |pod| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == wanted))
    }
}

#[tokio::test]
async fn pod_runs_on_simulated_node_until_deleted() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("pod").await.unwrap();
    let pods = Api::<Pod>::namespaced(cluster.client().await.unwrap(), &namespace);
    pods.create(&PostParams::default(), &pod(&json!({}))).await.unwrap();
    wait::condition(&pods, "one", "to be Ready", PATIENCE, is_ready("True")).await.unwrap();
    let running = wait::condition(&pods, "one", "to run", PATIENCE, is_pod_running()).await.unwrap().unwrap();
    assert!(running.spec.unwrap().node_name.unwrap().starts_with("node-"));
    assert!(running.status.unwrap().pod_ip.is_some());
    pods.delete("one", &DeleteParams::default()).await.unwrap();
    wait::condition(&pods, "one", "to be gone", PATIENCE, |pod: Option<&Pod>| pod.is_none()).await.unwrap();
}

#[tokio::test]
async fn annotation_keeps_running_pod_unready() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("unready").await.unwrap();
    let pods = Api::<Pod>::namespaced(cluster.client().await.unwrap(), &namespace);
    pods.create(&PostParams::default(), &pod(&json!({ "ensemble.test/never-ready": "true" }))).await.unwrap();
    let unready =
        wait::condition(&pods, "one", "to run unready", PATIENCE, is_ready("False")).await.unwrap().unwrap();
    assert_eq!(unready.status.unwrap().phase.unwrap(), "Running");
    for (value, ready) in [(json!(null), "True"), (json!("true"), "False")] {
        let change = json!({ "metadata": { "annotations": { "ensemble.test/never-ready": value } } });
        pods.patch("one", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
        wait::condition(&pods, "one", "to change", PATIENCE, is_ready(ready)).await.unwrap();
    }
}

#[tokio::test]
async fn annotation_keeps_pod_pending() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("pending").await.unwrap();
    let pods = Api::<Pod>::namespaced(cluster.client().await.unwrap(), &namespace);
    pods.create(&PostParams::default(), &pod(&json!({ "ensemble.test/stay-pending": "true" })))
        .await
        .unwrap();
    let scheduled = |pod: Option<&Pod>| {
        pod.is_some_and(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
    };
    wait::condition(&pods, "one", "to be scheduled", PATIENCE, scheduled).await.unwrap();
    // kwok processed the first Pod before this one runs.
    let mut later = pod(&json!({}));
    later.metadata.name = Some("later".to_owned());
    pods.create(&PostParams::default(), &later).await.unwrap();
    wait::condition(&pods, "later", "to run", PATIENCE, is_pod_running()).await.unwrap();
    assert_eq!(pods.get("one").await.unwrap().status.unwrap().phase.unwrap(), "Pending");
}

#[tokio::test]
async fn job_completes() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("job").await.unwrap();
    cluster.kubectl(&["-n", &namespace, "create", "job", "once", "--image=example.com/none"]).await.unwrap();
    let jobs = Api::<Job>::namespaced(cluster.client().await.unwrap(), &namespace);
    wait::condition(&jobs, "once", "to complete", PATIENCE, is_job_completed()).await.unwrap();
}

#[tokio::test]
async fn node_selector_of_a_namespace_is_added_to_its_pods() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("selector").await.unwrap();
    let selector = "scheduler.alpha.kubernetes.io/node-selector=example.com/pool=a";
    cluster.kubectl(&["annotate", "namespace", &namespace, selector]).await.unwrap();
    let pods = Api::<Pod>::namespaced(cluster.client().await.unwrap(), &namespace);
    // The plugin reads namespaces from a cache.
    wait::eventually("a Pod to get the selector", PATIENCE, async || {
        let created = pods.create(&dry_run(), &pod(&json!({}))).await?;
        let selector = created.spec.and_then(|spec| spec.node_selector).unwrap_or_default();
        let pool = selector.get("example.com/pool").map(String::as_str);
        Ok(if pool == Some("a") { Ok(()) } else { Err(selector) })
    })
    .await
    .unwrap();
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

#[tokio::test]
async fn quota_is_enforced() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("quota").await.unwrap();
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: 0}}\n";
    cluster
        .apply_yaml(&quota.replace("name: none", &format!("name: none, namespace: {}", namespace.name())))
        .await
        .unwrap();
    let client = cluster.client().await.unwrap();
    let quotas = Api::<ResourceQuota>::namespaced(client.clone(), &namespace);
    let counted = |quota: Option<&ResourceQuota>| {
        quota.is_some_and(|quota| quota.status.as_ref().is_some_and(|status| status.hard.is_some()))
    };
    wait::condition(&quotas, "none", "to be counted", PATIENCE, counted).await.unwrap();
    let error = Api::namespaced(client, &namespace)
        .create(&PostParams::default(), &pod(&json!({})))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("exceeded quota"), "{error}");
}

#[tokio::test]
async fn dependents_are_garbage_collected() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("garbage").await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(cluster.client().await.unwrap(), &namespace);
    let map = |name: &str, owners| {
        serde_json::from_value::<ConfigMap>(
            json!({ "metadata": { "name": name, "ownerReferences": owners } }),
        )
        .unwrap()
    };
    let owner = maps.create(&PostParams::default(), &map("owner", json!([]))).await.unwrap();
    let reference = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid() }]);
    maps.create(&PostParams::default(), &map("owned", reference)).await.unwrap();
    let background =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    maps.delete("owner", &background).await.unwrap();
    wait::condition(&maps, "owned", "to be collected", PATIENCE, |map: Option<&ConfigMap>| map.is_none())
        .await
        .unwrap();
}

#[tokio::test]
async fn crds_are_installed_concurrently() {
    let cluster = cluster::shared().await.unwrap();
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": "widgets.cluster.test" },
        "spec": {
            "group": "cluster.test",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    }))
    .unwrap();
    let crds = [crd];
    futures::future::try_join_all((0..5).map(|_| cluster.install_crds(&crds))).await.unwrap();
    let namespace = cluster.namespace("widgets").await.unwrap();
    let widget = "apiVersion: cluster.test/v1\nkind: Widget\nmetadata: {name: one, namespace: NS}\n";
    cluster.apply_yaml(&widget.replace("NS", &namespace)).await.unwrap();
    assert!(
        cluster
            .kubectl(&["-n", &namespace, "get", "widgets", "-o", "name"])
            .await
            .unwrap()
            .contains("widget.cluster.test/one")
    );
}

#[tokio::test]
async fn kubectl_error_contains_command_and_cause() {
    let cluster = cluster::shared().await.unwrap();
    let error = format!("{:#}", cluster.kubectl(&["get", "nothings"]).await.unwrap_err());
    assert!(error.contains("kubectl get nothings") && error.contains("nothings"), "{error}");
}
