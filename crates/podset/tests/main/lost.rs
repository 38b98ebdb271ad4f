//! Answers to deletes that are lost while the cache is behind.

use cluster::{Cluster, TestNamespace, wait::eventually};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use operator_core::{Controller, Environment, conditions::is_true, pod::DELETION_COST, register};
use podset::{PodSet, PodSetController};
use serde_json::{Value, json};

use crate::{
    line::{Line, News},
    support::{PATIENCE, set},
};

/// A cluster of its own, whose only controller of PodSets has a bad connection.
struct World {
    cluster: Cluster,
    namespace: TestNamespace,
    sets: Api<PodSet>,
    pods: Api<Pod>,
}

impl World {
    async fn new() -> (Self, Environment, Line) {
        let cluster = cluster::isolated().await.unwrap();
        cluster.install_crds(&PodSetController::crds()).await.unwrap();
        let client = cluster.client().await.unwrap();
        let namespace = cluster.namespace("lost").await.unwrap();
        let line = Line::new();
        let environment = Environment::new(line.client(&client));
        let sets = Api::namespaced(client.clone(), &namespace);
        let pods = Api::namespaced(client, &namespace);
        (Self { cluster, namespace, sets, pods }, environment, line)
    }

    async fn ask(&self, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.sets.patch("web", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn until_ready(&self, pods: i32) {
        eventually(&format!("{pods} ready pods"), PATIENCE, async || {
            let set = self.sets.get("web").await?;
            let status = set.status.unwrap_or_default();
            let is_ready = status.observed_generation == set.metadata.generation
                && status.available_replicas == pods
                && is_true(&status.conditions, "Ready");
            Ok(if is_ready { Ok(()) } else { Err(status) })
        })
        .await
        .unwrap();
    }

    /// Waits until these, without `web-pod-`, are the pods that are there and stay.
    async fn until_live(&self, numbers: &[&str]) {
        eventually(&format!("{numbers:?} to be left"), PATIENCE, async || {
            let pods = self.pods.list(&ListParams::default()).await?.items;
            let live = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
            let mut live: Vec<_> = live.map(|pod| pod.name_any().replace("web-pod-", "")).collect();
            live.sort();
            Ok(if live == numbers { Ok(()) } else { Err(live) })
        })
        .await
        .unwrap();
    }

    /// Waits until this many deletes more have been sent.
    async fn until_deleted_again(&self, deletes: usize) {
        let now = Timestamp::now();
        eventually(&format!("{deletes} deletes"), PATIENCE, async || {
            let log = self.cluster.audit()?.in_namespace(&self.namespace);
            let sent =
                log.filter(|one| one.verb == "delete" && one.resource == "pods" && one.time > now).entries;
            Ok(if sent.len() >= deletes { Ok(()) } else { Err(sent) })
        })
        .await
        .unwrap();
    }
}

fn template(cost: &str) -> Value {
    json!({"metadata": {"annotations": {DELETION_COST: cost}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn the_pods_that_were_chosen_go_and_no_others_though_the_answers_are_lost() {
    let (world, environment, line) = World::new().await;
    let own = environment.clone();
    let running = tokio::spawn(async move { register::<PodSetController>().run(&own).await });
    let three = set("web", json!({"replicas": 3, "template": template("-1")}));
    world.sets.create(&PostParams::default(), &three).await.unwrap();
    world.until_ready(3).await;
    world.ask(json!({"replicas": 5, "template": template("0")})).await;
    world.until_ready(5).await;

    // The three cheapest go. Then the controller gets to know that another one has become the cheapest, and still
    // not that the three have gone.
    line.news(News::Held);
    line.lose_deletes(true);
    let cheap = Patch::Merge(json!({"metadata": {"annotations": {DELETION_COST: "-100"}}}));
    world.pods.patch("web-pod-4", &PatchParams::default(), &cheap).await.unwrap();
    world.ask(json!({"replicas": 2})).await;
    world.until_live(&["4", "5"]).await;
    line.news(News::BeforeDeletes);
    world.until_deleted_again(6).await;
    world.until_live(&["4", "5"]).await;
    line.lose_deletes(false);
    line.news(News::All);
    world.until_ready(2).await;
    world.until_live(&["4", "5"]).await;

    // One goes, and before that is known three are asked for.
    line.news(News::Held);
    line.lose_deletes(true);
    world.ask(json!({"replicas": 1})).await;
    world.until_live(&["5"]).await;
    world.ask(json!({"replicas": 3})).await;
    world.until_live(&["1", "2", "5"]).await;
    line.lose_deletes(false);
    line.news(News::All);
    world.until_ready(3).await;
    world.until_live(&["1", "2", "5"]).await;
    environment.stop.cancel();
    running.await.unwrap();
    world.cluster.stop().unwrap();
}
