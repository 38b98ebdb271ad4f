//! `--controllers`: what is not asked for is not there.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::{POD_SET, tutorial};

#[tokio::test]
async fn one_controller_alone_watches_what_it_needs_and_nothing_else() {
    let stage = tutorial().await;
    let account = stage.account("only-podset").await;
    stage.permit_account(&account, "podset").await;
    let manager = stage.start_with_probes("only-podset", &account, &["--controllers=podset"]);
    manager.until_readyz(200, "ok").await;
    let namespace = stage.cluster.namespace("only").await.unwrap();
    stage.create(&POD_SET, &namespace, "web", json!({ "replicas": 2 })).await;
    stage.until_settled(&POD_SET, &namespace, "web").await;
    manager.ask_to_end().await;

    let requests = stage.requests(&account).entries;
    // A get is fine: another manager is at work here, too, and conflicts are looked into.
    let watched = requests.iter().filter(|entry| matches!(&*entry.verb, "list" | "watch"));
    let watched: BTreeSet<_> = watched.map(|entry| (&*entry.verb, &*entry.resource)).collect();
    assert_eq!(watched, BTreeSet::from([("watch", "pods"), ("watch", "podsets")]));
    let agents: BTreeSet<_> = requests.iter().map(|entry| &*entry.user_agent).collect();
    assert!(agents.iter().all(|agent| agent.starts_with("ensemble/")), "{agents:?}");
}

#[tokio::test]
async fn all_but_one_waits_for_the_kinds_of_the_others() {
    let stage = tutorial().await;
    let account = stage.account("all-but-tenant").await;
    let manager = stage.start_with_probes("all-but-tenant", &account, &["--controllers=*,-tenant"]);
    let kinds = "Deployment, HorizontalPodAutoscaler, LimitRange, Memcached, Namespace, NamespacePlus, \
        NetworkPolicy, Pod, PodDisruptionBudget, PodSet, ResourceQuota, RoleBinding, Service";
    manager.until_readyz(503, &format!("waiting for the first list of {kinds}")).await;
    manager.ask_to_end().await;
}
