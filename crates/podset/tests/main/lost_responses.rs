//! Lost responses to deletes, while the cache is stale.

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
    faulty_connection::{FaultyConnection, WatchEvents},
    support::{TIMEOUT, set},
};

/// Isolated cluster whose only PodSet controller has a faulty connection.
struct TestEnv {
    cluster: Cluster,
    namespace: TestNamespace,
    sets: Api<PodSet>,
    pods: Api<Pod>,
}

impl TestEnv {
    async fn new() -> (Self, Environment, FaultyConnection) {
        let cluster = cluster::isolated().await.unwrap();
        cluster.install_crds(&PodSetController::crds()).await.unwrap();
        let client = cluster.client().await.unwrap();
        let namespace = cluster.namespace("lost").await.unwrap();
        let connection = FaultyConnection::new();
        let environment = Environment::new(connection.client(&client));
        let sets = Api::namespaced(client.clone(), &namespace);
        let pods = Api::namespaced(client, &namespace);
        (Self { cluster, namespace, sets, pods }, environment, connection)
    }

    async fn patch_spec(&self, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.sets.patch("web", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn until_ready(&self, pods: i32) {
        eventually(&format!("{pods} ready Pods"), TIMEOUT, async || {
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

    /// Waits until exactly the Pods with these numbers exist and are not terminating.
    async fn until_live(&self, numbers: &[&str]) {
        eventually(&format!("only the Pods {numbers:?} to exist"), TIMEOUT, async || {
            let pods = self.pods.list(&ListParams::default()).await?.items;
            let live = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
            let mut live: Vec<_> = live.map(|pod| pod.name_any().replace("web-pod-", "")).collect();
            live.sort();
            Ok(if live == numbers { Ok(()) } else { Err(live) })
        })
        .await
        .unwrap();
    }

    /// Waits until this many further deletes have been sent.
    async fn until_deletes_sent(&self, deletes: usize) {
        let now = Timestamp::now();
        eventually(&format!("{deletes} deletes"), TIMEOUT, async || {
            let log = self.cluster.audit()?.in_namespace(&self.namespace);
            let sent =
                log.filter(|one| one.verb == "delete" && one.resource == "pods" && one.time > now).entries;
            Ok(if sent.len() >= deletes { Ok(()) } else { Err(sent) })
        })
        .await
        .unwrap();
    }
}

fn template(deletion_cost: &str) -> Value {
    json!({"metadata": {"annotations": {DELETION_COST: deletion_cost}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn deletes_only_the_selected_pods_when_responses_are_lost() {
    let (env, environment, connection) = TestEnv::new().await;
    let controller_environment = environment.clone();
    let running =
        tokio::spawn(async move { register::<PodSetController>().run(&controller_environment).await });
    let three = set("web", json!({"replicas": 3, "template": template("-1")}));
    env.sets.create(&PostParams::default(), &three).await.unwrap();
    env.until_ready(3).await;
    env.patch_spec(json!({"replicas": 5, "template": template("0")})).await;
    env.until_ready(5).await;

    // The three Pods with the lowest deletion cost are deleted. The cache then shows that another Pod
    // has the lowest cost, but not that the three are gone.
    connection.set_watch_events(WatchEvents::Delayed);
    connection.lose_delete_responses(true);
    let lowest_cost = Patch::Merge(json!({"metadata": {"annotations": {DELETION_COST: "-100"}}}));
    env.pods.patch("web-pod-4", &PatchParams::default(), &lowest_cost).await.unwrap();
    env.patch_spec(json!({"replicas": 2})).await;
    env.until_live(&["4", "5"]).await;
    connection.set_watch_events(WatchEvents::DeliveredUntilDelete);
    env.until_deletes_sent(6).await;
    env.until_live(&["4", "5"]).await;
    connection.lose_delete_responses(false);
    connection.set_watch_events(WatchEvents::Delivered);
    env.until_ready(2).await;
    env.until_live(&["4", "5"]).await;

    // One Pod is deleted. The PodSet is scaled to three before the cache shows that it is gone.
    connection.set_watch_events(WatchEvents::Delayed);
    connection.lose_delete_responses(true);
    env.patch_spec(json!({"replicas": 1})).await;
    env.until_live(&["5"]).await;
    env.patch_spec(json!({"replicas": 3})).await;
    env.until_live(&["1", "2", "5"]).await;
    connection.lose_delete_responses(false);
    connection.set_watch_events(WatchEvents::Delivered);
    env.until_ready(3).await;
    env.until_live(&["1", "2", "5"]).await;
    environment.stop.cancel();
    running.await.unwrap();
    env.cluster.stop().unwrap();
}
