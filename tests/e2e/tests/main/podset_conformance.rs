//! What Kubernetes' own conformance tests hold a ReplicaSet to, asked of a PodSet; one test here for one there.

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

use crate::support::{Manager, PATIENCE, POD_SET, Stage};

/// The cluster that these tests share. A quota refuses pods there, so the walk-throughs, whose manager is refused nothing,
/// have another.
async fn stage() -> &'static Stage {
    static STAGE: OnceCell<(Stage, Manager)> = OnceCell::const_new();
    let start = async || {
        let stage = Stage::complete().await;
        let manager = stage.start("manager", &stage.account, &["--controllers=podset"]);
        (stage, manager)
    };
    &STAGE.get_or_init(start).await.0
}

/// A namespace of a test's own.
struct World {
    stage: &'static Stage,
    namespace: TestNamespace,
    sets: Api<DynamicObject>,
    pods: Api<Pod>,
}

impl World {
    async fn new() -> Self {
        let stage = stage().await;
        let namespace = stage.cluster.namespace("conformance").await.unwrap();
        let sets = stage.api(&POD_SET, &namespace).await;
        let pods = Api::namespaced(stage.cluster.client().await.unwrap(), &namespace);
        Self { stage, namespace, sets, pods }
    }

    /// Creates a PodSet and waits until it is ready.
    async fn run(&self, name: &str, spec: Value) -> DynamicObject {
        self.stage.create(&POD_SET, &self.namespace, name, spec).await;
        self.until_settled(name).await
    }

    async fn until_settled(&self, name: &str) -> DynamicObject {
        self.stage.until_settled(&POD_SET, &self.namespace, name).await
    }

    async fn pods_of(&self, set: &str) -> Vec<Pod> {
        let labels = ListParams::default().labels(&format!("app={set}"));
        self.pods.list(&labels).await.unwrap().items
    }

    async fn apply(&self, mut manifest: Value) {
        manifest["metadata"]["namespace"] = self.namespace.name().into();
        self.stage.cluster.apply_yaml(&manifest.to_string()).await.unwrap();
    }
}

/// A template with one container.
fn template(image: &str) -> Value {
    json!({ "spec": { "containers": [{ "name": "main", "image": image }], "terminationGracePeriodSeconds": 0 } })
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

/// The condition of a type.
fn condition(set: &DynamicObject, type_: &str) -> Option<Condition> {
    let conditions: Vec<Condition> =
        serde_json::from_value(set.data["status"]["conditions"].clone()).unwrap_or_default();
    conditions.into_iter().find(|condition| condition.type_ == type_)
}

fn said(type_: &str) -> Condition {
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
async fn each_replica_runs_the_image_and_has_an_address_of_its_own() {
    let world = World::new().await;
    world.run("web", json!({ "replicas": 3, "template": template("registry.example.com/hostname:1") })).await;
    let pods = world.pods_of("web").await;
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
async fn an_exceeded_quota_is_a_failure_condition_that_goes_when_the_set_is_scaled_to_fit() {
    let world = World::new().await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "two" }, "spec": { "hard": { "pods": "2" } },
    });
    world.apply(quota).await;
    eventually("the quota to be counted", PATIENCE, async || {
        let inside = format!("--namespace={}", world.namespace.name());
        let quota = world.stage.read(&["get", "resourcequota", "two", &inside]).await;
        Ok(quota["status"]["hard"]["pods"] == "2")
    })
    .await
    .unwrap();
    world.stage.create(&POD_SET, &world.namespace, "web", json!({ "replicas": 3 })).await;
    let has_failed = |set: &DynamicObject| {
        condition(set, "ReplicaFailure").is_some_and(|failure| failure.status == "True")
            && set.data["status"]["observedGeneration"].as_i64() == set.metadata.generation
    };
    let failed = world.stage.until(&POD_SET, &world.namespace, "web", "to fail", has_failed).await;
    assert!(condition(&failed, "ReplicaFailure").unwrap().message.contains("exceeded quota: two"));
    assert_eq!(failed.data["status"]["replicas"], 2);

    world.stage.change(&POD_SET, &world.namespace, "web", json!({ "replicas": 2 })).await;
    let healed = world.until_settled("web").await;
    assert_eq!(condition(&healed, "ReplicaFailure").unwrap().status, "False");
}

#[tokio::test]
async fn a_matching_pod_is_adopted_on_creation_and_released_when_it_matches_no_longer() {
    let world = World::new().await;
    world
        .apply(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "orphan", "labels": { "app": "web", "version": "v0.1" } },
            "spec": template("registry.example.com/orphan:1")["spec"],
        }))
        .await;
    let set = world.run("web", json!({ "replicas": 1 })).await;
    assert_eq!(set.data["status"]["podNames"], json!(["orphan"]));
    let owners = world.pods.get("orphan").await.unwrap().owner_references().to_vec();
    let owners: Vec<_> = owners.into_iter().map(|owner| (Some(owner.uid), owner.controller)).collect();
    assert_eq!(owners, [(set.uid(), Some(true))]);

    let relabel = Patch::Merge(json!({ "metadata": { "labels": { "app": "not-matching" } } }));
    world.pods.patch("orphan", &PatchParams::default(), &relabel).await.unwrap();
    eventually("the pod to be released", PATIENCE, async || {
        let owners = world.pods.get("orphan").await?.owner_references().to_vec();
        Ok(if owners.is_empty() { Ok(()) } else { Err(owners) })
    })
    .await
    .unwrap();
    let is_replaced = |set: &DynamicObject| set.data["status"]["podNames"] == json!(["web-pod-1"]);
    world.stage.until(&POD_SET, &world.namespace, "web", "to have another pod", is_replaced).await;
}

#[tokio::test]
async fn the_scale_subresource_is_read_updated_and_patched() {
    let world = World::new().await;
    world.run("web", json!({ "replicas": 1 })).await;
    let mut scale = world.sets.get_scale("web").await.unwrap();
    let status = scale.status.clone().unwrap();
    assert_eq!((scale.spec.as_ref().unwrap().replicas, status.replicas), (Some(1), 1));
    assert_eq!(status.selector.as_deref(), Some("app=web,version=v0.1"));

    scale.metadata.resource_version = None;
    scale.spec.as_mut().unwrap().replicas = Some(2);
    let updated = world.sets.replace_scale("web", &PostParams::default(), &scale).await.unwrap();
    assert_eq!(updated.spec.unwrap().replicas, Some(2));
    let set = world.until_settled("web").await;
    assert_eq!((&set.data["spec"]["replicas"], world.pods_of("web").await.len()), (&json!(2), 2));

    let four = Patch::Merge(json!({ "spec": { "replicas": 4 } }));
    let patched = world.sets.patch_scale("web", &PatchParams::default(), &four).await.unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(4));
    world.until_settled("web").await;
    assert_eq!(world.sets.get_scale("web").await.unwrap().status.unwrap().replicas, 4);

    let eleven = Patch::Merge(json!({ "spec": { "replicas": 11 } }));
    let refused = world.sets.patch_scale("web", &PatchParams::default(), &eleven).await.unwrap_err();
    assert!(refused.to_string().contains("should be less than or equal to 10"), "{refused}");
}

#[tokio::test]
async fn a_set_is_replaced_and_patched() {
    let world = World::new().await;
    let mut set = world.run("web", json!({ "replicas": 1, "template": template("a:1") })).await;
    set.data["spec"]["replicas"] = json!(2);
    set = world.sets.replace("web", &PostParams::default(), &set).await.unwrap();
    assert_eq!(set.data["spec"]["replicas"], 2);
    world.until_settled("web").await;

    let patch = Patch::Merge(json!({
        "metadata": { "labels": { "test-set": "patched" } },
        "spec": { "replicas": 3, "template": template("b:2") },
    }));
    world.sets.patch("web", &PatchParams::default(), &patch).await.unwrap();
    let set = world.until_settled("web").await;
    assert_eq!(set.labels()["test-set"], "patched");
    let pods = world.pods_of("web").await;
    let mut images: Vec<_> = pods.iter().map(image).collect();
    images.sort_unstable();
    assert_eq!(images, ["a:1", "a:1", "b:2"], "a template concerns new pods");
}

#[tokio::test]
async fn sets_are_listed_and_deleted_as_a_collection() {
    let world = World::new().await;
    for (name, label) in [("a", "yes"), ("b", "yes"), ("c", "no")] {
        world.run(name, json!({ "replicas": 2 })).await;
        let label = Patch::Merge(json!({ "metadata": { "labels": { "collected": label } } }));
        world.sets.patch(name, &PatchParams::default(), &label).await.unwrap();
    }
    let collected = ListParams::default().labels("collected=yes");
    let names = async |params: &ListParams| {
        world.sets.list(params).await.unwrap().iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    assert_eq!(names(&collected).await, ["a", "b"]);
    world.sets.delete_collection(&DeleteParams::default(), &collected).await.unwrap();
    eventually("the collection and its pods to be gone", PATIENCE, async || {
        let pods = world.pods.list(&ListParams::default()).await?.items;
        let pods: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        Ok(if pods == ["c-pod-1", "c-pod-2"] { Ok(()) } else { Err(pods) })
    })
    .await
    .unwrap();
    assert_eq!(names(&ListParams::default()).await, ["c"]);
}

#[tokio::test]
async fn the_status_is_read_updated_and_patched_apart_from_the_spec() {
    let world = World::new().await;
    world.run("web", json!({ "replicas": 1 })).await;
    let mut set = world.sets.get_status("web").await.unwrap();
    assert_eq!(set.data["status"]["replicas"], 1);

    // What is written there is seen by all who watch, and the spec stays as it is.
    let updated = json!(said("StatusUpdate"));
    set.data["status"]["conditions"].as_array_mut().unwrap().push(updated);
    set.data["spec"]["replicas"] = json!(7);
    world.sets.replace_status("web", &PostParams::default(), &set).await.unwrap();
    let is_updated = |set: &DynamicObject| condition(set, "StatusUpdate") == Some(said("StatusUpdate"));
    let set = world.stage.until(&POD_SET, &world.namespace, "web", "to be updated", is_updated).await;
    assert_eq!(set.data["spec"]["replicas"], 1);

    let patched = json!({
        "apiVersion": POD_SET.api_version(), "kind": "PodSet", "status": { "conditions": [said("StatusPatched")] },
    });
    let patch = Patch::Apply(patched);
    world.sets.patch_status("web", &PatchParams::apply("conformance").force(), &patch).await.unwrap();
    let is_patched = |set: &DynamicObject| condition(set, "StatusPatched") == Some(said("StatusPatched"));
    world.stage.until(&POD_SET, &world.namespace, "web", "to be patched", is_patched).await;

    // Nor does a write of the object touch the status.
    let lie = Patch::Merge(json!({ "spec": { "replicas": 2 }, "status": { "replicas": 9 } }));
    let written = world.sets.patch("web", &PatchParams::default(), &lie).await.unwrap();
    assert_eq!(written.data["status"]["replicas"], 1);

    // The controller says its own and leaves what others say.
    let set = world.until_settled("web").await;
    assert!(is_updated(&set) && is_patched(&set), "{:#}", set.data["status"]);
    assert_eq!(set.data["status"]["replicas"], 2);
}
