//! The quota of namespaces with concurrent creations and two managers.

use std::time::Duration;

use cluster::wait::eventually;
use futures::future::join_all;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{Subject, shared_env};
use crate::support::{PATIENCE, TENANT, TestEnv};

const QUOTA: usize = 3;

async fn with_quota(env: &TestEnv, tenant: &str) -> Subject {
    let alice = Subject::user(&format!("alice-of-{tenant}"));
    env.tenant(tenant, &[&alice], json!({ "namespaceOptions": { "quota": QUOTA } })).await;
    alice
}

/// Returns the names of the Tenant's namespaces that have reservations.
async fn reserved(env: &TestEnv, tenant: &str) -> Vec<String> {
    let status = env.read(&["get", "tenant", tenant]).await["status"].clone();
    let all = status["reservations"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["namespace"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn concurrent_creations_with_two_managers_match_quota_exactly() {
    let env = shared_env().await;
    let alice = with_quota(env, "raced").await;
    let names: Vec<_> =
        (0..20).map(|at| format!("raced-{at}-{}", if at % 2 == 0 { "a" } else { "b" })).collect();
    let ended = join_all(names.iter().map(|name| alice.create(env, name))).await;
    let (made, refused): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_ok);
    assert_eq!(made.len(), QUOTA, "{refused:?}");
    for refused in refused {
        let refused = refused.unwrap_err();
        assert!(refused.contains("Tenant raced may have 3 namespaces and has 3"), "{refused}");
    }
    let there = env.names(&["namespaces", "--selector=capsule.clastix.io/tenant=raced"]).await;
    assert_eq!(there.len(), QUOTA);
    env.until_tenant_ready("raced", 3).await;
}

#[tokio::test]
async fn dry_run_reserves_nothing() {
    let env = shared_env().await;
    let alice = with_quota(env, "dry").await;
    for at in 0..2 * QUOTA {
        alice.dry_create(env, &format!("dry-{at}")).await.unwrap();
    }
    assert!(reserved(env, "dry").await.is_empty());
    for at in 0..QUOTA {
        alice.create(env, &format!("dry-{at}")).await.unwrap();
    }
    let refused = alice.dry_create(env, "dry-more").await.unwrap_err();
    assert!(refused.contains("Tenant dry may have 3 namespaces and has 3"), "{refused}");
}

#[tokio::test]
async fn deleted_namespace_frees_quota() {
    let env = shared_env().await;
    let alice = with_quota(env, "freed").await;
    for at in 0..QUOTA {
        alice.create(env, &format!("freed-{at}")).await.unwrap();
    }
    assert!(alice.create(env, "freed-more").await.is_err());
    env.until_tenant_ready("freed", 3).await;
    alice.delete(env, "freed-0").await.unwrap();
    env.until_no_namespace("freed-0").await;
    alice.create(env, "freed-more").await.unwrap();
    assert!(alice.create(env, "freed-0").await.is_err());
}

#[tokio::test]
async fn reservation_expires_after_one_minute() {
    let env = shared_env().await;
    let alice = with_quota(env, "expiring").await;
    // The namespace is admitted but not created: the name exists already.
    env.kubectl(&["create", "namespace", "expiring-taken"]).await.unwrap();
    let refused = alice.create(env, "expiring-taken").await.unwrap_err();
    assert!(refused.contains("already exists"), "{refused}");
    assert_eq!(reserved(env, "expiring").await, ["expiring-taken"]);
    for at in 1..QUOTA {
        alice.create(env, &format!("expiring-{at}")).await.unwrap();
    }
    let refused = alice.create(env, "expiring-more").await.unwrap_err();
    assert!(refused.contains("has 3, including those that are being created"), "{refused}");
    // Expiry is measured by the observer's clock, not by the writer's.
    let mut tenant = env.read(&["get", "tenant", "expiring"]).await;
    let past = Timestamp::now() - SignedDuration::from_hours(1);
    for reservation in tenant["status"]["reservations"].as_array_mut().unwrap() {
        reservation["until"] = past.to_string().into();
    }
    let patch = json!({ "status": { "reservations": tenant["status"]["reservations"] } }).to_string();
    let patch = format!("--patch={patch}");
    env.kubectl(&["patch", "tenant", "expiring", "--subresource=status", "--type=merge", &patch])
        .await
        .unwrap();
    assert!(alice.create(env, "expiring-more").await.is_err());
    eventually("the reservation to expire", PATIENCE + Duration::from_mins(1), async || {
        Ok(alice.create(env, "expiring-more").await)
    })
    .await
    .unwrap();
    assert!(
        !reserved(env, "expiring").await.contains(&"expiring-taken".to_owned()),
        "an expired reservation must be removed"
    );
}

#[tokio::test]
async fn lowered_quota_keeps_namespaces_and_rejects_new_ones() {
    let env = shared_env().await;
    let alice = with_quota(env, "lowered").await;
    for at in 0..2 {
        alice.create(env, &format!("lowered-{at}")).await.unwrap();
    }
    env.change(&TENANT, "", "lowered", json!({ "namespaceOptions": { "quota": 1 } })).await;
    let refused = alice.create(env, "lowered-more").await.unwrap_err();
    assert!(refused.contains("Tenant lowered may have 1 namespaces and has 2"), "{refused}");
    // The quota also applies to an administrator who moves a namespace in.
    env.kubectl(&["create", "namespace", "lowered-in"]).await.unwrap();
    let label = ["label", "namespace", "lowered-in", "capsule.clastix.io/tenant=lowered"];
    let refused = format!("{:#}", env.kubectl(&label).await.unwrap_err());
    assert!(refused.contains("may have 1 namespaces"), "{refused}");
    env.change(&TENANT, "", "lowered", json!({ "namespaceOptions": { "quota": 3 } })).await;
    env.kubectl(&label).await.unwrap();
    env.until_tenant_ready("lowered", 3).await;
}
