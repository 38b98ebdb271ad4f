//! A change of the Memcached or a drain of its nodes disrupts at most one Pod at a time.

use std::{collections::HashMap, future::Future};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api, ResourceExt,
    api::EvictParams,
    runtime::{
        WatchStreamExt,
        watcher::{Config, Event, watcher},
    },
};
use serde_json::json;

use crate::support::{TIMEOUT, TestEnv, status};

/// Statistics of the Pods of a Memcached over all watch events.
#[derive(Debug)]
struct PodCounts {
    /// Lowest number of Pods that were ready and not terminating.
    fewest_ready: usize,
    /// Number of Pods that terminated.
    terminated: usize,
}

/// Watches the Pods of the Memcached `web` while `change` runs, until all Pods are replaced and as
/// many new ones are ready.
async fn watched(env: &TestEnv, change: impl Future<Output = ()>) -> PodCounts {
    let config = Config::default().labels("memcached_cr=web");
    let events = watcher(env.api::<Pod>(), config).default_backoff();
    pin_mut!(events);
    let mut pods = HashMap::new();
    loop {
        match events.next().await.unwrap().unwrap() {
            Event::InitApply(pod) => drop(pods.insert(pod.name_any(), is_ready(&pod))),
            Event::InitDone => break,
            _ => {}
        }
    }
    let old: Vec<_> = pods.keys().cloned().collect();
    let count = |pods: &HashMap<_, bool>| (pods.values().filter(|ready| **ready).count(), pods.len());
    let (wanted, _) = count(&pods);
    let mut observed = PodCounts { fewest_ready: wanted, terminated: 0 };
    let watching = async {
        while old.iter().any(|name| pods.contains_key(name)) || count(&pods) != (wanted, wanted) {
            match events.next().await.unwrap().unwrap() {
                Event::Apply(pod) if pod.metadata.deletion_timestamp.is_none() => {
                    pods.insert(pod.name_any(), is_ready(&pod));
                }
                Event::Apply(pod) | Event::Delete(pod) => {
                    observed.terminated += usize::from(pods.remove(&pod.name_any()).is_some());
                }
                other => panic!("the watch restarted and may have missed events: {other:?}"),
            }
            let (ready, _) = count(&pods);
            observed.fewest_ready = observed.fewest_ready.min(ready);
        }
    };
    let both = async { tokio::join!(change, watching) };
    tokio::time::timeout(3 * TIMEOUT, both).await.expect("all pods should be replaced");
    observed
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Does not count surplus Pods: `maxSurge` bounds the replicas of the ReplicaSets together, and a Pod
/// of the old one may still exist when the new one creates its next.
#[tokio::test]
async fn rollout_never_reduces_ready_pods() {
    for (size, spec) in [
        (1, json!({"image": "memcached:1.6-alpine"})),
        (3, json!({"image": "memcached:1.6-alpine"})),
        (3, json!({"maxConnections": 2048, "threads": 2})),
        (2, json!({"containerPort": 12000, "metrics": {}})),
    ] {
        let env = TestEnv::new().await;
        env.ready("web", size).await;
        let observed = watched(&env, env.change("web", spec.clone())).await;
        let size = usize::try_from(size).unwrap();
        assert_eq!((observed.fewest_ready, observed.terminated), (size, size), "{spec}: {observed:?}");
    }
}

#[tokio::test]
async fn drain_evicts_one_pod_at_a_time() {
    let env = TestEnv::new().await;
    let cache = env.ready("web", 3).await;
    env.until::<PodDisruptionBudget>("web", "the budget to count the Pods", |budget| {
        budget.status.as_ref().is_some_and(|status| status.disruptions_allowed == Some(1))
    })
    .await;
    let pods: Api<Pod> = env.api();
    let evict = async |name: &String| {
        cluster::wait::eventually(&format!("{name} to be evicted"), 3 * TIMEOUT, async || {
            pods.evict(name, &EvictParams::default()).await?;
            Ok(true)
        })
        .await
        .unwrap();
    };
    // All at once, as when three nodes are drained in parallel.
    let names = status(&cache).nodes;
    let drain = async {
        futures::future::join_all(names.iter().map(evict)).await;
    };
    let observed = watched(&env, drain).await;
    assert_eq!((observed.fewest_ready, observed.terminated), (2, 3), "{observed:?}");
}

#[tokio::test]
async fn endpoints_keep_the_pods_port_during_port_change() {
    let env = TestEnv::new().await;
    let cache = env.ready("web", 1).await;
    let old = status(&cache).endpoints;
    // The new Pod cannot be scheduled, so the old one stays.
    let spec = json!({"containerPort": 12000, "memoryMegabytes": 1_048_576});
    env.change("web", spec).await;
    let cache = env
        .until("web", "the rollout to start", |cache: &memcached::Memcached| {
            status(cache).observed_generation == cache.metadata.generation && status(cache).nodes.len() == 2
        })
        .await;
    assert_eq!(status(&cache).endpoints, old);
    env.change("web", json!({"memoryMegabytes": 64})).await;
    let cache = env.until_ready("web", 1).await;
    assert!(status(&cache).endpoints[0].ends_with(":12000"), "{:?}", status(&cache).endpoints);
}
