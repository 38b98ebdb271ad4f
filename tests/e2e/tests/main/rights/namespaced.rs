//! `--watch-namespaces`: Roles are enough, and nothing is asked about the whole cluster.

use std::collections::BTreeSet;

use cluster::wait::eventually;
use serde_json::json;

use super::table::granted;
use crate::support::{MEMCACHED, PATIENCE, POD_SET, Stage, path};

/// The controllers that can do with namespaces.
const ENABLED: [&str; 2] = ["memcached", "podset"];

/// Gives the manager its Roles in a namespace.
async fn permit(stage: &Stage, namespace: &str) {
    for controller in ENABLED {
        let file = path(&format!("deploy/rbac/namespaced/{controller}.yaml"));
        stage.kubectl(&["apply", "--server-side", "--namespace", namespace, "-f", &file]).await.unwrap();
    }
}

async fn create_both(stage: &Stage, namespace: &str) {
    stage.create(&POD_SET, namespace, "web", json!({ "replicas": 2 })).await;
    stage.create(&MEMCACHED, namespace, "cache", json!({ "size": 2 })).await;
}

async fn until_both_are_settled(stage: &Stage, namespace: &str) {
    stage.until_settled(&POD_SET, namespace, "web").await;
    stage.until_settled(&MEMCACHED, namespace, "cache").await;
}

#[tokio::test]
async fn with_roles_only_it_looks_after_its_namespaces_and_no_other() {
    let stage = Stage::bare().await;
    stage.define().await;
    for namespace in ["shop", "till", "other"] {
        stage.kubectl(&["create", "namespace", namespace]).await.unwrap();
        create_both(&stage, namespace).await;
    }
    for namespace in ["shop", "till"] {
        permit(&stage, namespace).await;
    }
    let args = ["--controllers=memcached,podset", "--watch-namespaces=shop,till,later"];
    let manager = stage.start_with_probes("manager", &stage.account, &args);
    let kinds = [
        "Deployment",
        "HorizontalPodAutoscaler",
        "Memcached",
        "NetworkPolicy",
        "Pod",
        "PodDisruptionBudget",
        "PodSet",
        "Service",
    ];
    let missing = kinds.map(|kind| format!("{kind} in later")).join(", ");
    manager.until_readyz(200, &format!("ok; without rights to watch {missing}")).await;
    for namespace in ["shop", "till"] {
        until_both_are_settled(&stage, namespace).await;
    }

    // A namespace that there is from now on.
    manager.until_logged("cannot watch Pod in later: not allowed, or there is no such namespace").await;
    stage.kubectl(&["create", "namespace", "later"]).await.unwrap();
    create_both(&stage, "later").await;
    permit(&stage, "later").await;
    manager.until_readyz(200, "ok").await;
    until_both_are_settled(&stage, "later").await;
    assert_eq!(manager.count("cannot watch Pod in later"), 1, "{}", manager.log());
    changes_are_followed(&stage).await;

    let untouched = stage.read(&["get", "podset,memcached", "--namespace=other"]).await;
    assert!(untouched["items"].as_array().unwrap().iter().all(|object| object["status"].is_null()));
    stage.until_none(&["pods,deployments,services", "--namespace=other"]).await;
    manager.ask_to_end().await;
    asked_only_within(&stage, &["shop", "till", "later"]).await;
}

async fn changes_are_followed(stage: &Stage) {
    stage.change(&POD_SET, "till", "web", json!({ "replicas": 1 })).await;
    stage.until_count(&["pods", "--namespace=till", "--selector=app=web"], 1).await;
    stage.delete(&MEMCACHED, "shop", "cache").await;
    stage.until_none(&["deployments", "--namespace=shop"]).await;
    stage.kubectl(&["delete", "pod", "web-pod-1", "--namespace=shop", "--wait=false"]).await.unwrap();
    stage.until_settled(&POD_SET, "shop", "web").await;
}

/// Holds the manager to what Roles allow.
async fn asked_only_within(stage: &Stage, namespaces: &[&str]) {
    let rights = granted(stage, &stage.account).await;
    assert!(rights.iter().all(|right| right.namespace.is_some()), "a Role holds in one namespace");
    let own = ["ensemble-system"];
    let allowed: BTreeSet<_> = namespaces.iter().chain(&own).copied().collect();
    // The log has a watch when it ends.
    eventually("the watches to be in the audit log", PATIENCE, async || {
        let log = stage.requests(&stage.account).filter(|entry| entry.verb == "watch");
        let seen: BTreeSet<_> = log.entries.iter().map(|entry| entry.namespace.clone()).collect();
        Ok(if namespaces.iter().all(|name| seen.contains(*name)) { Ok(()) } else { Err(seen) })
    })
    .await
    .unwrap();
    let outside = stage.requests(&stage.account).filter(|entry| !allowed.contains(&*entry.namespace));
    assert_eq!(outside.entries, []);
    let refused =
        stage.requests(&stage.account).filter(|entry| entry.code == 403 && entry.namespace != "later");
    assert_eq!(refused.entries, []);
}
