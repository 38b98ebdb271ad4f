//! Namespaces that race for what is left of a quota of their Tenant: by how much they get past it, and that it is put right.

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
    support::{PATIENCE, World},
};

/// How many pods the Tenant may have.
const MOST: usize = 20;
/// How many requests each namespace has under way at a time.
const AT_ONCE: usize = 4;

const ENDS: [&str; 4] = ["a", "b", "c", "d"];

/// How a creation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReconcileResult {
    LetIn,
    Refused,
}

/// Creates a pod. The API server may answer that its count of the quota was overtaken; then it is asked again, as
/// every controller does. Returns how often that was.
async fn attempt(pods: &Api<Pod>, name: &str) -> (ReconcileResult, usize) {
    let mut overtaken = 0;
    loop {
        let Err(error) = pods.create(&PostParams::default(), &pod(name)).await else {
            return (ReconcileResult::LetIn, overtaken);
        };
        if error.to_string().contains("exceeded quota") {
            return (ReconcileResult::Refused, overtaken);
        }
        assert!(matches!(&error, kube::Error::Api(status) if status.is_conflict()), "{error}");
        overtaken += 1;
    }
}

/// Creates as many pods in each of the namespaces as the whole Tenant may have, as fast as it goes. Returns how many were
/// let in where, and how often a count was overtaken.
async fn race(world: &World, ends: &[&str]) -> (BTreeMap<String, usize>, usize) {
    let in_one = async |end: &str| {
        let pods = world.api::<Pod>(&world.named(end));
        let names: Vec<_> = (0..MOST).map(|number| format!("racer-{number}")).collect();
        let attempts = names.iter().map(|name| attempt(&pods, name));
        let made: Vec<_> = stream::iter(attempts).buffer_unordered(AT_ONCE).collect().await;
        let let_in = made.iter().filter(|(ended, _)| *ended == ReconcileResult::LetIn).count();
        (end.to_owned(), let_in, made.iter().map(|(_, overtaken)| overtaken).sum::<usize>())
    };
    let done: Vec<_> = join_all(ends.iter().map(|end| in_one(end))).await;
    let overtaken = done.iter().map(|(_, _, overtaken)| overtaken).sum();
    (done.into_iter().map(|(end, let_in, _)| (end, let_in)).collect(), overtaken)
}

/// What the API server counts in each namespace, once each is granted that and all that is left of the whole. Kubernetes'
/// quota controller may count one pod too few for some minutes: it looks at a ResourceQuota before it has heard of the pod.
async fn until_granted(world: &World, ends: &[&str]) -> Vec<usize> {
    let quota = format!("capsule-{}-0", world.name);
    eventually("each namespace to be granted its use and what is left", PATIENCE, async || {
        let mut counts = Vec::new();
        for end in ends {
            let found = world.api::<ResourceQuota>(&world.named(end)).get(&quota).await?;
            let (spec, status) = (found.spec.unwrap_or_default(), found.status.unwrap_or_default());
            let pods = |amounts: Option<BTreeMap<String, Quantity>>| -> Option<usize> {
                amounts?.get("pods")?.0.parse().ok()
            };
            counts.push((pods(spec.hard), pods(status.used).unwrap_or_default()));
        }
        let left = MOST.saturating_sub(counts.iter().map(|(_, used)| used).sum());
        let is_granted = counts.iter().all(|(hard, used)| *hard == Some(used + left));
        Ok(if is_granted { Ok(counts.iter().map(|(_, used)| *used).collect()) } else { Err(counts) })
    })
    .await
    .unwrap()
}

/// Has these namespaces race, and holds them to the bound and to what comes after.
async fn past_the_quota_and_back(ends: &[&str]) {
    let world = World::new().await;
    let quotas = json!({ "items": [{ "hard": { "pods": MOST.to_string() } }] });
    world.ready(json!({ "resourceQuotas": quotas }), ends).await;
    for end in ends {
        until_hard(&world, end, &MOST.to_string()).await;
        // So that the namespace has what pods need, and a refusal is one of the quota.
        run(&world, end, "first").await;
        let pods = world.api::<Pod>(&world.named(end));
        pods.delete("first", &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    for end in ends {
        until_hard(&world, end, &MOST.to_string()).await;
    }
    let began = Timestamp::now();
    let (let_in, overtaken) = race(&world, ends).await;
    let together: usize = let_in.values().sum();
    let past = together.saturating_sub(MOST);
    assert!(past <= (ends.len() - 1) * MOST, "{let_in:?}");

    // What is there stays; nobody gets any more, and what is granted is what is used.
    let counted: usize = until_granted(&world, ends).await.into_iter().sum();
    assert!(counted >= MOST, "{counted} are counted of {let_in:?}");
    for end in ends {
        let more = world.api::<Pod>(&world.named(end)).create(&PostParams::default(), &pod("more")).await;
        assert!(more.unwrap_err().to_string().contains("exceeded quota"));
    }
    let writes =
        world.writes(began).iter().filter(|write| write.starts_with("update resourcequotas")).count();
    println!(
        "{} namespaces raced for {MOST} pods: {let_in:?}, {past} too many; {overtaken} conflicts; {writes} writes of \
         ResourceQuotas, {} at most",
        ends.len(),
        together * ends.len()
    );
    assert!(writes <= together * ends.len(), "{writes} writes for {together} pods");

    // One below the limit, there is one again, for whoever is first.
    let mut too_many = past + 1;
    for end in ends {
        let pods = world.api::<Pod>(&world.named(end));
        let there = pods.list(&ListParams::default()).await.unwrap().items;
        for pod in there.iter().take(too_many) {
            pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await.unwrap();
            too_many -= 1;
        }
    }
    eventually("there to be some left", PATIENCE, async || {
        let counted: usize = until_granted(&world, ends).await.into_iter().sum();
        Ok(counted < MOST)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_namespaces_that_race_past_a_quota_are_bounded_and_what_is_granted_shrinks_to_what_is_used() {
    past_the_quota_and_back(&ENDS[..2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_namespaces_that_race_past_a_quota_are_bounded_and_what_is_granted_shrinks_to_what_is_used() {
    past_the_quota_and_back(&ENDS).await;
}

#[tokio::test]
async fn a_burst_in_one_namespace_costs_one_write_for_each_change_at_most_and_none_when_it_is_over() {
    const BURST: usize = 30;
    let world = World::new().await;
    world.ready(json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "100" } }] } }), &["a", "b"]).await;
    until_hard(&world, "a", "100").await;
    run(&world, "a", "first").await;
    until_hard(&world, "b", "99").await;
    let began = Timestamp::now();
    let pods = world.api::<Pod>(&world.named("a"));
    let create = |number: usize| {
        let pods = pods.clone();
        async move { pods.create(&PostParams::default(), &pod(&format!("burst-{number}"))).await }
    };
    let made: Vec<_> = stream::iter((0..BURST).map(create)).buffer_unordered(8).collect().await;
    assert!(made.iter().all(Result::is_ok));
    until_hard(&world, "b", &(99 - BURST).to_string()).await;
    let quota = format!("capsule-{}-0", world.name);
    for end in ["a", "b"] {
        world
            .until_object::<ResourceQuota>(end, &quota, "to say what is used", |quota| {
                quota.annotations()["quota.capsule.clastix.io/used-pods"] == (BURST + 1).to_string()
            })
            .await;
    }
    let over = Timestamp::now();
    let writes = world.writes(began);
    println!("{BURST} pods in one of two namespaces: {} writes", writes.len());
    assert!(writes.len() <= 2 * BURST, "{writes:?}");

    // The namespace is looked at again, for a change that has nothing to do with it.
    world.patch_namespace("a", json!({ "annotations": { "note": "x" } })).await;
    let other = World::new().await;
    other.ready(json!({}), &["a"]).await;
    assert_eq!(world.writes(over), [] as [String; 0]);
}
