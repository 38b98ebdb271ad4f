//! The flag `--controllers`.

use std::collections::BTreeSet;

use cluster::Release;
use serde_json::json;

use crate::support::{POD_SET, tutorial};

#[tokio::test]
async fn single_controller_watches_only_its_kinds() {
    let env = tutorial().await;
    let account = env.account("only-podset").await;
    env.grant_controller_rights(&account, "podset").await;
    let manager = env.start_with_probes("only-podset", &account, &["--controllers=podset"]);
    manager.until_readyz(200, "ok").await;
    let namespace = env.cluster.namespace("only").await.unwrap();
    env.create(&POD_SET, &namespace, "web", json!({ "replicas": 2 })).await;
    env.until_ready(&POD_SET, &namespace, "web").await;
    manager.stop().await;

    let requests = env.requests(&account).entries;
    // A get is allowed: another manager works here too, and a conflict causes a live read.
    let watched = requests.iter().filter(|entry| matches!(&*entry.verb, "list" | "watch"));
    let watched: BTreeSet<_> = watched.map(|entry| (&*entry.verb, &*entry.resource)).collect();
    // Kubernetes 1.33 does not stream lists, so there are lists before watches.
    let lists = Release::from_env().unwrap().to_string().ends_with("1.33");
    let verbs: &[_] = if lists { &["list", "watch"] } else { &["watch"] };
    let expected = verbs.iter().flat_map(|verb| [(*verb, "pods"), (*verb, "podsets")]);
    assert_eq!(watched, expected.collect());
    let agents: BTreeSet<_> = requests.iter().map(|entry| &*entry.user_agent).collect();
    assert!(agents.iter().all(|agent| agent.starts_with("ensemble/")), "{agents:?}");
}

#[tokio::test]
async fn excluded_controller_watches_nothing() {
    let env = tutorial().await;
    let account = env.account("all-but-tenant").await;
    let manager = env.start_with_probes("all-but-tenant", &account, &["--controllers=*,-tenant"]);
    let kinds = "CapsuleConfiguration, Deployment, GlobalTenantResource, HorizontalPodAutoscaler, Lease, LimitRange, \
        Memcached, Namespace, NamespacePlus, NetworkPolicy, PersistentVolumeClaim, Pod, PodDisruptionBudget, PodSet, \
        PostgresBackup, PostgresCluster, ResourceQuota, Role, RoleBinding, Service, ServiceAccount, Tenant, TenantResource";
    manager.until_readyz(503, &format!("waiting for the first list of {kinds}")).await;
    manager.stop().await;
}
