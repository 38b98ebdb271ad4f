//! Concurrent requests of several namespaces for a shared quota: how far they exceed it, and that
//! the controller corrects it.

use std::collections::BTreeMap;

use cluster::wait::eventually;
use futures::{StreamExt, future::join_all, stream};
use k8s_openapi::{
    api::core::v1::{Pod, ResourceQuota},
    apimachinery::pkg::api::resource::Quantity,
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

use crate::{
    quotas::{pod, run, until_hard},
    support::{TIMEOUT, TestEnv},
};

/// Number of Pods in the quota of the Tenant.
const QUOTA: usize = 20;
/// Number of concurrent requests for each namespace.
const CONCURRENCY: usize = 4;

const NAMESPACES: [&str; 4] = ["a", "b", "c", "d"];

/// Result of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Created,
    Denied,
}

/// Creates a Pod. Retries conflicts of the quota status, as every controller does. Returns the
/// number of conflicts.
async fn attempt(pods: &Api<Pod>, name: &str) -> (Attempt, usize) {
    let mut conflicts = 0;
    loop {
        let Err(error) = pods.create(&PostParams::default(), &pod(name)).await else {
            return (Attempt::Created, conflicts);
        };
        if error.to_string().contains("exceeded quota") {
            return (Attempt::Denied, conflicts);
        }
        assert!(matches!(&error, kube::Error::Api(status) if status.is_conflict()), "{error}");
        conflicts += 1;
    }
}

/// Creates the full quota of Pods in each namespace concurrently. Returns the number of created
/// Pods by namespace, and the number of conflicts.
async fn race(env: &TestEnv, suffixes: &[&str]) -> (BTreeMap<String, usize>, usize) {
    let fill_namespace = async |suffix: &str| {
        let pods = env.api::<Pod>(&env.prefixed(suffix));
        let names: Vec<_> = (0..QUOTA).map(|number| format!("racer-{number}")).collect();
        let attempts = names.iter().map(|name| attempt(&pods, name));
        let results: Vec<_> = stream::iter(attempts).buffer_unordered(CONCURRENCY).collect().await;
        let created = results.iter().filter(|(result, _)| *result == Attempt::Created).count();
        (suffix.to_owned(), created, results.iter().map(|(_, conflicts)| conflicts).sum::<usize>())
    };
    let finished: Vec<_> = join_all(suffixes.iter().map(|suffix| fill_namespace(suffix))).await;
    let conflicts = finished.iter().map(|(_, _, conflicts)| conflicts).sum();
    (finished.into_iter().map(|(suffix, created, _)| (suffix, created)).collect(), conflicts)
}

/// Waits until the limit of each namespace is its usage plus the rest of the shared quota. Returns
/// the usage of each namespace. For some minutes, the quota controller of Kubernetes may count one
/// Pod too few, because it may recalculate a ResourceQuota before its cache contains the Pod.
async fn until_limits_adjusted(env: &TestEnv, suffixes: &[&str]) -> Vec<usize> {
    let quota = format!("capsule-{}-0", env.name);
    eventually("the limit of each namespace to be its usage plus the rest", TIMEOUT, async || {
        let mut counts = Vec::new();
        for suffix in suffixes {
            let found = env.api::<ResourceQuota>(&env.prefixed(suffix)).get(&quota).await?;
            let (spec, status) = (found.spec.unwrap_or_default(), found.status.unwrap_or_default());
            let pods = |amounts: Option<BTreeMap<String, Quantity>>| -> Option<usize> {
                amounts?.get("pods")?.0.parse().ok()
            };
            counts.push((pods(spec.hard), pods(status.used).unwrap_or_default()));
        }
        let left = QUOTA.saturating_sub(counts.iter().map(|(_, used)| used).sum());
        let is_adjusted = counts.iter().all(|(hard, used)| *hard == Some(used + left));
        Ok(if is_adjusted { Ok(counts.iter().map(|(_, used)| *used).collect()) } else { Err(counts) })
    })
    .await
    .unwrap()
}

/// Exceeds the quota from these namespaces, and checks the limit of the excess and its correction.
async fn exceed_and_correct(suffixes: &[&str]) {
    let env = TestEnv::new().await;
    let quotas = json!({ "items": [{ "hard": { "pods": QUOTA.to_string() } }] });
    env.ready(json!({ "resourceQuotas": quotas }), suffixes).await;
    for suffix in suffixes {
        until_hard(&env, suffix, &QUOTA.to_string()).await;
        // The first Pod shows that the namespace is usable, so that later denials come from the
        // quota.
        run(&env, suffix, "first").await;
        let pods = env.api::<Pod>(&env.prefixed(suffix));
        pods.delete("first", &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    for suffix in suffixes {
        until_hard(&env, suffix, &QUOTA.to_string()).await;
    }
    let began = Timestamp::now();
    let (created, conflicts) = race(&env, suffixes).await;
    let total: usize = created.values().sum();
    let excess = total.saturating_sub(QUOTA);
    assert!(excess <= (suffixes.len() - 1) * QUOTA, "{created:?}");

    // Existing Pods stay, no new Pods are admitted, and the limits shrink to the usage.
    let counted: usize = until_limits_adjusted(&env, suffixes).await.into_iter().sum();
    assert!(counted >= QUOTA, "{counted} are counted of {created:?}");
    for suffix in suffixes {
        let more = env.api::<Pod>(&env.prefixed(suffix)).create(&PostParams::default(), &pod("more")).await;
        assert!(more.unwrap_err().to_string().contains("exceeded quota"));
    }
    let writes = env.writes(began).iter().filter(|write| write.starts_with("update resourcequotas")).count();
    println!(
        "{} namespaces raced for {QUOTA} pods: {created:?}, {excess} too many; {conflicts} conflicts; {writes} writes of \
         ResourceQuotas, {} at most",
        suffixes.len(),
        total * suffixes.len()
    );
    assert!(writes <= total * suffixes.len(), "{writes} writes for {total} pods");

    // After the usage drops below the quota, one Pod is available again.
    let mut too_many = excess + 1;
    for suffix in suffixes {
        let pods = env.api::<Pod>(&env.prefixed(suffix));
        let existing = pods.list(&ListParams::default()).await.unwrap().items;
        for pod in existing.iter().take(too_many) {
            pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await.unwrap();
            too_many -= 1;
        }
    }
    eventually("quota to be available", TIMEOUT, async || {
        let counted: usize = until_limits_adjusted(&env, suffixes).await.into_iter().sum();
        Ok(counted < QUOTA)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_corrects_quota_excess_of_two_namespaces() {
    exceed_and_correct(&NAMESPACES[..2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_corrects_quota_excess_of_four_namespaces() {
    exceed_and_correct(&NAMESPACES).await;
}

#[tokio::test]
async fn burst_of_pods_needs_at_most_one_write_for_each_change_and_namespace() {
    const BURST: usize = 30;
    let env = TestEnv::new().await;
    env.ready(json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "100" } }] } }), &["a", "b"]).await;
    until_hard(&env, "a", "100").await;
    run(&env, "a", "first").await;
    until_hard(&env, "b", "99").await;
    let began = Timestamp::now();
    let pods = env.api::<Pod>(&env.prefixed("a"));
    let create = |number: usize| {
        let pods = pods.clone();
        async move { pods.create(&PostParams::default(), &pod(&format!("burst-{number}"))).await }
    };
    let results: Vec<_> = stream::iter((0..BURST).map(create)).buffer_unordered(8).collect().await;
    assert!(results.iter().all(Result::is_ok));
    until_hard(&env, "b", &(99 - BURST).to_string()).await;
    let quota = format!("capsule-{}-0", env.name);
    for suffix in ["a", "b"] {
        env.until_object::<ResourceQuota>(suffix, &quota, "to contain the usage", |quota| {
            quota.annotations()["quota.capsule.clastix.io/used-pods"] == (BURST + 1).to_string()
        })
        .await;
    }
    let over = Timestamp::now();
    let writes = env.writes(began);
    println!("{BURST} pods in one of two namespaces: {} writes", writes.len());
    assert!(writes.len() <= 2 * BURST, "{writes:?}");

    // The annotation triggers a reconcile without an effect.
    env.patch_namespace("a", json!({ "annotations": { "note": "x" } })).await;
    let other = TestEnv::new().await;
    other.ready(json!({}), &["a"]).await;
    assert_eq!(env.writes(over), [] as [String; 0]);
}
