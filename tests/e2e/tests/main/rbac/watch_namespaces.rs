//! The flag `--watch-namespaces`: Roles are sufficient, and no request has cluster scope.

use std::collections::BTreeSet;

use cluster::wait::eventually;
use serde_json::json;

use super::usage::granted;
use crate::support::{MEMCACHED, PATIENCE, POD_SET, TestEnv, path};

/// Controllers that support namespace scope.
const ENABLED: [&str; 2] = ["memcached", "podset"];

/// Applies the manager's Roles in a namespace.
async fn grant_roles(env: &TestEnv, namespace: &str) {
    for controller in ENABLED {
        let file = path(&format!("deploy/rbac/namespaced/{controller}.yaml"));
        env.kubectl(&["apply", "--server-side", "--namespace", namespace, "-f", &file]).await.unwrap();
    }
}

async fn create_both(env: &TestEnv, namespace: &str) {
    env.create(&POD_SET, namespace, "web", json!({ "replicas": 2 })).await;
    env.create(&MEMCACHED, namespace, "cache", json!({ "size": 2 })).await;
}

async fn until_both_are_settled(env: &TestEnv, namespace: &str) {
    env.until_ready(&POD_SET, namespace, "web").await;
    env.until_ready(&MEMCACHED, namespace, "cache").await;
}

#[tokio::test]
async fn roles_are_sufficient_for_watched_namespaces() {
    let env = TestEnv::bare().await;
    env.install_crds().await;
    for namespace in ["shop", "till", "other"] {
        env.kubectl(&["create", "namespace", namespace]).await.unwrap();
        create_both(&env, namespace).await;
    }
    for namespace in ["shop", "till"] {
        grant_roles(&env, namespace).await;
    }
    let args = ["--controllers=memcached,podset", "--watch-namespaces=shop,till,later"];
    let manager = env.start_with_probes("manager", &env.account, &args);
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
        until_both_are_settled(&env, namespace).await;
    }

    // Creates the namespace later.
    manager.until_logged("cannot watch Pod in later: not allowed, or there is no such namespace").await;
    env.kubectl(&["create", "namespace", "later"]).await.unwrap();
    create_both(&env, "later").await;
    grant_roles(&env, "later").await;
    manager.until_readyz(200, "ok").await;
    until_both_are_settled(&env, "later").await;
    assert_eq!(manager.count("cannot watch Pod in later"), 1, "{}", manager.log());
    assert_changes_are_reconciled(&env).await;

    let untouched = env.read(&["get", "podset,memcached", "--namespace=other"]).await;
    assert!(untouched["items"].as_array().unwrap().iter().all(|object| object["status"].is_null()));
    env.until_empty(&["pods,deployments,services", "--namespace=other"]).await;
    manager.stop().await;
    assert_requests_within(&env, &["shop", "till", "later"]).await;
}

async fn assert_changes_are_reconciled(env: &TestEnv) {
    env.change(&POD_SET, "till", "web", json!({ "replicas": 1 })).await;
    env.until_count(&["pods", "--namespace=till", "--selector=app=web"], 1).await;
    env.delete(&MEMCACHED, "shop", "cache").await;
    env.until_empty(&["deployments", "--namespace=shop"]).await;
    env.kubectl(&["delete", "pod", "web-pod-1", "--namespace=shop", "--wait=false"]).await.unwrap();
    env.until_ready(&POD_SET, "shop", "web").await;
}

/// Asserts that all requests were in the given namespaces.
async fn assert_requests_within(env: &TestEnv, namespaces: &[&str]) {
    let rights = granted(env, &env.account).await;
    assert!(rights.iter().all(|right| right.namespace.is_some()), "a Role holds in one namespace");
    let own = ["ensemble-system"];
    let allowed: BTreeSet<_> = namespaces.iter().chain(&own).copied().collect();
    // A watch is logged when it ends.
    eventually("the watches to be in the audit log", PATIENCE, async || {
        let log = env.requests(&env.account).filter(|entry| entry.verb == "watch");
        let seen: BTreeSet<_> = log.entries.iter().map(|entry| entry.namespace.clone()).collect();
        Ok(if namespaces.iter().all(|name| seen.contains(*name)) { Ok(()) } else { Err(seen) })
    })
    .await
    .unwrap();
    let outside = env.requests(&env.account).filter(|entry| !allowed.contains(&*entry.namespace));
    assert_eq!(outside.entries, []);
    let refused = env.requests(&env.account).filter(|entry| entry.code == 403 && entry.namespace != "later");
    assert_eq!(refused.entries, []);
}
