//! The quota of namespaces, however many are created at once and by whichever manager they are admitted.

use std::time::Duration;

use cluster::wait::eventually;
use futures::future::join_all;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{Person, town};
use crate::support::{PATIENCE, Stage, TENANT};

const QUOTA: usize = 3;

async fn with_quota(stage: &Stage, tenant: &str) -> Person {
    let alice = Person::user(&format!("alice-of-{tenant}"));
    stage.tenant(tenant, &[&alice], json!({ "namespaceOptions": { "quota": QUOTA } })).await;
    alice
}

/// Those namespaces of the Tenant that have places, by name.
async fn reserved(stage: &Stage, tenant: &str) -> Vec<String> {
    let status = stage.read(&["get", "tenant", tenant]).await["status"].clone();
    let all = status["reservations"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["namespace"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn twenty_at_once_against_a_quota_of_three_are_exactly_three_with_two_managers() {
    let stage = town().await;
    let alice = with_quota(stage, "raced").await;
    let names: Vec<_> =
        (0..20).map(|at| format!("raced-{at}-{}", if at % 2 == 0 { "a" } else { "b" })).collect();
    let ended = join_all(names.iter().map(|name| alice.create(stage, name))).await;
    let (made, refused): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_ok);
    assert_eq!(made.len(), QUOTA, "{refused:?}");
    for refused in refused {
        let refused = refused.unwrap_err();
        assert!(refused.contains("Tenant raced may have 3 namespaces and has 3"), "{refused}");
    }
    let there = stage.names(&["namespaces", "--selector=capsule.clastix.io/tenant=raced"]).await;
    assert_eq!(there.len(), QUOTA);
    stage.until_joined("raced", 3).await;
}

#[tokio::test]
async fn a_dry_run_takes_no_place_and_tells_what_would_be() {
    let stage = town().await;
    let alice = with_quota(stage, "dry").await;
    for at in 0..2 * QUOTA {
        alice.dry_create(stage, &format!("dry-{at}")).await.unwrap();
    }
    assert!(reserved(stage, "dry").await.is_empty());
    for at in 0..QUOTA {
        alice.create(stage, &format!("dry-{at}")).await.unwrap();
    }
    let refused = alice.dry_create(stage, "dry-more").await.unwrap_err();
    assert!(refused.contains("Tenant dry may have 3 namespaces and has 3"), "{refused}");
}

#[tokio::test]
async fn the_place_of_a_namespace_that_is_gone_is_free_again() {
    let stage = town().await;
    let alice = with_quota(stage, "freed").await;
    for at in 0..QUOTA {
        alice.create(stage, &format!("freed-{at}")).await.unwrap();
    }
    assert!(alice.create(stage, "freed-more").await.is_err());
    stage.until_joined("freed", 3).await;
    alice.delete(stage, "freed-0").await.unwrap();
    stage.until_no_namespace("freed-0").await;
    alice.create(stage, "freed-more").await.unwrap();
    assert!(alice.create(stage, "freed-0").await.is_err());
}

#[tokio::test]
async fn a_place_is_kept_for_a_minute_for_who_was_promised_it() {
    let stage = town().await;
    let alice = with_quota(stage, "kept").await;
    // Admitted, and then not created, for there is one of that name.
    stage.kubectl(&["create", "namespace", "kept-taken"]).await.unwrap();
    let refused = alice.create(stage, "kept-taken").await.unwrap_err();
    assert!(refused.contains("already exists"), "{refused}");
    assert_eq!(reserved(stage, "kept").await, ["kept-taken"]);
    for at in 1..QUOTA {
        alice.create(stage, &format!("kept-{at}")).await.unwrap();
    }
    let refused = alice.create(stage, "kept-more").await.unwrap_err();
    assert!(refused.contains("has 3, with those that are just being created"), "{refused}");
    // Its time is measured by those who see it: whoever wrote it may have another clock.
    let mut tenant = stage.read(&["get", "tenant", "kept"]).await;
    let past = Timestamp::now() - SignedDuration::from_hours(1);
    for reservation in tenant["status"]["reservations"].as_array_mut().unwrap() {
        reservation["until"] = past.to_string().into();
    }
    let patch = json!({ "status": { "reservations": tenant["status"]["reservations"] } }).to_string();
    let patch = format!("--patch={patch}");
    stage
        .kubectl(&["patch", "tenant", "kept", "--subresource=status", "--type=merge", &patch])
        .await
        .unwrap();
    assert!(alice.create(stage, "kept-more").await.is_err());
    eventually("the minute to be over", PATIENCE + Duration::from_mins(1), async || {
        Ok(alice.create(stage, "kept-more").await)
    })
    .await
    .unwrap();
    assert!(!reserved(stage, "kept").await.contains(&"kept-taken".to_owned()), "what has expired is gone");
}

#[tokio::test]
async fn a_quota_below_what_is_there_keeps_it_and_lets_nobody_in() {
    let stage = town().await;
    let alice = with_quota(stage, "lowered").await;
    for at in 0..2 {
        alice.create(stage, &format!("lowered-{at}")).await.unwrap();
    }
    stage.change(&TENANT, "", "lowered", json!({ "namespaceOptions": { "quota": 1 } })).await;
    let refused = alice.create(stage, "lowered-more").await.unwrap_err();
    assert!(refused.contains("Tenant lowered may have 1 namespaces and has 2"), "{refused}");
    // An administrator who moves one in is held to it, too.
    stage.kubectl(&["create", "namespace", "lowered-in"]).await.unwrap();
    let label = ["label", "namespace", "lowered-in", "capsule.clastix.io/tenant=lowered"];
    let refused = format!("{:#}", stage.kubectl(&label).await.unwrap_err());
    assert!(refused.contains("may have 1 namespaces"), "{refused}");
    stage.change(&TENANT, "", "lowered", json!({ "namespaceOptions": { "quota": 3 } })).await;
    stage.kubectl(&label).await.unwrap();
    stage.until_joined("lowered", 3).await;
}
