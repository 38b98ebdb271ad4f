//! Kubernetes' conformance tests of ReplicaSets, applied to PodSets. Each test corresponds to one
//! conformance test.

use cluster::{TestNamespace, wait::eventually};
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{Manager, PATIENCE, POD_SET, TestEnv};

/// Returns the cluster that these tests share. The tutorial's cluster cannot be used: its tests
/// assert that no request is forbidden, and a quota forbids Pods here.
async fn shared_env() -> &'static TestEnv {
    static STAGE: OnceCell<(TestEnv, Manager)> = OnceCell::const_new();
    let start = async || {
        let env = TestEnv::complete().await;
        let manager = env.start("manager", &env.account, &["--controllers=podset"]);
        (env, manager)
    };
    &STAGE.get_or_init(start).await.0
}

/// A namespace for one test.
struct Fixture {
    env: &'static TestEnv,
    namespace: TestNamespace,
    sets: Api<DynamicObject>,
    pods: Api<Pod>,
}

impl Fixture {
    async fn new() -> Self {
        let env = shared_env().await;
        let namespace = env.cluster.namespace("conformance").await.unwrap();
        let sets = env.api(&POD_SET, &namespace).await;
        let pods = Api::namespaced(env.cluster.client().await.unwrap(), &namespace);
        Self { env, namespace, sets, pods }
    }

    /// Creates a PodSet and waits until it is ready.
    async fn run(&self, name: &str, spec: Value) -> DynamicObject {
        self.env.create(&POD_SET, &self.namespace, name, spec).await;
        self.until_ready(name).await
    }

    async fn until_ready(&self, name: &str) -> DynamicObject {
        self.env.until_ready(&POD_SET, &self.namespace, name).await
    }

    async fn pods_of(&self, set: &str) -> Vec<Pod> {
        let labels = ListParams::default().labels(&format!("app={set}"));
        self.pods.list(&labels).await.unwrap().items
    }

    async fn apply(&self, mut manifest: Value) {
        manifest["metadata"]["namespace"] = self.namespace.name().into();
        self.env.cluster.apply_yaml(&manifest.to_string()).await.unwrap();
    }
}

/// Returns a Pod template with one container.
fn template(image: &str) -> Value {
    json!({ "spec": { "containers": [{ "name": "main", "image": image }], "terminationGracePeriodSeconds": 0 } })
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

/// Returns the condition of a type.
fn condition(set: &DynamicObject, type_: &str) -> Option<Condition> {
    let conditions: Vec<Condition> =
        serde_json::from_value(set.data["status"]["conditions"].clone()).unwrap_or_default();
    conditions.into_iter().find(|condition| condition.type_ == type_)
}

fn test_condition(type_: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: "E2E".to_owned(),
        message: format!("Set by a test: {type_}"),
        observed_generation: None,
        last_transition_time: Time(Timestamp::from_second(1_700_000_000).unwrap()),
    }
}

#[tokio::test]
async fn replicas_run_the_image_with_distinct_addresses() {
    let fixture = Fixture::new().await;
    fixture
        .run("web", json!({ "replicas": 3, "template": template("registry.example.com/hostname:1") }))
        .await;
    let pods = fixture.pods_of("web").await;
    assert_eq!(pods.len(), 3);
    let mut addresses = std::collections::BTreeSet::new();
    for pod in &pods {
        let status = pod.status.as_ref().unwrap();
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert!(status.container_statuses.iter().flatten().all(|container| container.ready));
        assert_eq!(image(pod), "registry.example.com/hostname:1");
        addresses.insert(status.pod_ip.clone().unwrap());
    }
    assert_eq!(addresses.len(), 3, "{addresses:?}");
}

#[tokio::test]
async fn exceeded_quota_sets_replica_failure_until_scaled_down() {
    let fixture = Fixture::new().await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "two" }, "spec": { "hard": { "pods": "2" } },
    });
    fixture.apply(quota).await;
    eventually("the quota to be counted", PATIENCE, async || {
        let inside = format!("--namespace={}", fixture.namespace.name());
        let quota = fixture.env.read(&["get", "resourcequota", "two", &inside]).await;
        Ok(quota["status"]["hard"]["pods"] == "2")
    })
    .await
    .unwrap();
    fixture.env.create(&POD_SET, &fixture.namespace, "web", json!({ "replicas": 3 })).await;
    let has_failed = |set: &DynamicObject| {
        condition(set, "ReplicaFailure").is_some_and(|failure| failure.status == "True")
            && set.data["status"]["observedGeneration"].as_i64() == set.metadata.generation
    };
    let failed = fixture.env.until(&POD_SET, &fixture.namespace, "web", "to fail", has_failed).await;
    assert!(condition(&failed, "ReplicaFailure").unwrap().message.contains("exceeded quota: two"));
    assert_eq!(failed.data["status"]["replicas"], 2);

    fixture.env.change(&POD_SET, &fixture.namespace, "web", json!({ "replicas": 2 })).await;
    let healed = fixture.until_ready("web").await;
    assert_eq!(condition(&healed, "ReplicaFailure").unwrap().status, "False");
}

#[tokio::test]
async fn adopts_matching_pods_and_releases_others() {
    let fixture = Fixture::new().await;
    fixture
        .apply(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "orphan", "labels": { "app": "web", "version": "v0.1" } },
            "spec": template("registry.example.com/orphan:1")["spec"],
        }))
        .await;
    let set = fixture.run("web", json!({ "replicas": 1 })).await;
    assert_eq!(set.data["status"]["podNames"], json!(["orphan"]));
    let owners = fixture.pods.get("orphan").await.unwrap().owner_references().to_vec();
    let owners: Vec<_> = owners.into_iter().map(|owner| (Some(owner.uid), owner.controller)).collect();
    assert_eq!(owners, [(set.uid(), Some(true))]);

    let relabel = Patch::Merge(json!({ "metadata": { "labels": { "app": "not-matching" } } }));
    fixture.pods.patch("orphan", &PatchParams::default(), &relabel).await.unwrap();
    eventually("the pod to be released", PATIENCE, async || {
        let owners = fixture.pods.get("orphan").await?.owner_references().to_vec();
        Ok(if owners.is_empty() { Ok(()) } else { Err(owners) })
    })
    .await
    .unwrap();
    let is_replaced = |set: &DynamicObject| set.data["status"]["podNames"] == json!(["web-pod-1"]);
    fixture.env.until(&POD_SET, &fixture.namespace, "web", "to have another pod", is_replaced).await;
}

#[tokio::test]
async fn reads_updates_and_patches_scale() {
    let fixture = Fixture::new().await;
    fixture.run("web", json!({ "replicas": 1 })).await;
    let mut scale = fixture.sets.get_scale("web").await.unwrap();
    let status = scale.status.clone().unwrap();
    assert_eq!((scale.spec.as_ref().unwrap().replicas, status.replicas), (Some(1), 1));
    assert_eq!(status.selector.as_deref(), Some("app=web,version=v0.1"));

    scale.metadata.resource_version = None;
    scale.spec.as_mut().unwrap().replicas = Some(2);
    let updated = fixture.sets.replace_scale("web", &PostParams::default(), &scale).await.unwrap();
    assert_eq!(updated.spec.unwrap().replicas, Some(2));
    let set = fixture.until_ready("web").await;
    assert_eq!((&set.data["spec"]["replicas"], fixture.pods_of("web").await.len()), (&json!(2), 2));

    let four = Patch::Merge(json!({ "spec": { "replicas": 4 } }));
    let patched = fixture.sets.patch_scale("web", &PatchParams::default(), &four).await.unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(4));
    fixture.until_ready("web").await;
    assert_eq!(fixture.sets.get_scale("web").await.unwrap().status.unwrap().replicas, 4);

    let eleven = Patch::Merge(json!({ "spec": { "replicas": 11 } }));
    let refused = fixture.sets.patch_scale("web", &PatchParams::default(), &eleven).await.unwrap_err();
    assert!(refused.to_string().contains("should be less than or equal to 10"), "{refused}");
}

#[tokio::test]
async fn replaces_and_patches_podset() {
    let fixture = Fixture::new().await;
    let mut set = fixture.run("web", json!({ "replicas": 1, "template": template("a:1") })).await;
    set.data["spec"]["replicas"] = json!(2);
    set = fixture.sets.replace("web", &PostParams::default(), &set).await.unwrap();
    assert_eq!(set.data["spec"]["replicas"], 2);
    fixture.until_ready("web").await;

    let patch = Patch::Merge(json!({
        "metadata": { "labels": { "test-set": "patched" } },
        "spec": { "replicas": 3, "template": template("b:2") },
    }));
    fixture.sets.patch("web", &PatchParams::default(), &patch).await.unwrap();
    let set = fixture.until_ready("web").await;
    assert_eq!(set.labels()["test-set"], "patched");
    let pods = fixture.pods_of("web").await;
    let mut images: Vec<_> = pods.iter().map(image).collect();
    images.sort_unstable();
    assert_eq!(images, ["a:1", "a:1", "b:2"], "the template applies only to new Pods");
}

#[tokio::test]
async fn lists_and_deletes_collection() {
    let fixture = Fixture::new().await;
    for (name, label) in [("a", "yes"), ("b", "yes"), ("c", "no")] {
        fixture.run(name, json!({ "replicas": 2 })).await;
        let label = Patch::Merge(json!({ "metadata": { "labels": { "collected": label } } }));
        fixture.sets.patch(name, &PatchParams::default(), &label).await.unwrap();
    }
    let collected = ListParams::default().labels("collected=yes");
    let names = async |params: &ListParams| {
        fixture.sets.list(params).await.unwrap().iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    assert_eq!(names(&collected).await, ["a", "b"]);
    fixture.sets.delete_collection(&DeleteParams::default(), &collected).await.unwrap();
    eventually("the collection and its pods to be gone", PATIENCE, async || {
        let pods = fixture.pods.list(&ListParams::default()).await?.items;
        let pods: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        Ok(if pods == ["c-pod-1", "c-pod-2"] { Ok(()) } else { Err(pods) })
    })
    .await
    .unwrap();
    assert_eq!(names(&ListParams::default()).await, ["c"]);
}

#[tokio::test]
async fn reads_updates_and_patches_status() {
    let fixture = Fixture::new().await;
    fixture.run("web", json!({ "replicas": 1 })).await;
    let mut set = fixture.sets.get_status("web").await.unwrap();
    assert_eq!(set.data["status"]["replicas"], 1);

    // Watchers see the change, and the spec is unchanged.
    let updated = json!(test_condition("StatusUpdate"));
    set.data["status"]["conditions"].as_array_mut().unwrap().push(updated);
    set.data["spec"]["replicas"] = json!(7);
    fixture.sets.replace_status("web", &PostParams::default(), &set).await.unwrap();
    let is_updated =
        |set: &DynamicObject| condition(set, "StatusUpdate") == Some(test_condition("StatusUpdate"));
    let set = fixture.env.until(&POD_SET, &fixture.namespace, "web", "to be updated", is_updated).await;
    assert_eq!(set.data["spec"]["replicas"], 1);

    let patched = json!({
        "apiVersion": POD_SET.api_version(), "kind": "PodSet", "status": { "conditions": [test_condition("StatusPatched")] },
    });
    let patch = Patch::Apply(patched);
    fixture.sets.patch_status("web", &PatchParams::apply("conformance").force(), &patch).await.unwrap();
    let is_patched =
        |set: &DynamicObject| condition(set, "StatusPatched") == Some(test_condition("StatusPatched"));
    fixture.env.until(&POD_SET, &fixture.namespace, "web", "to be patched", is_patched).await;

    // A write of the object does not change the status.
    let status_in_spec_write =
        Patch::Merge(json!({ "spec": { "replicas": 2 }, "status": { "replicas": 9 } }));
    let written = fixture.sets.patch("web", &PatchParams::default(), &status_in_spec_write).await.unwrap();
    assert_eq!(written.data["status"]["replicas"], 1);

    // The controller keeps the conditions of other clients.
    let set = fixture.until_ready("web").await;
    assert!(is_updated(&set) && is_patched(&set), "{:#}", set.data["status"]);
    assert_eq!(set.data["status"]["replicas"], 2);
}
