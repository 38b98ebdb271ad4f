//! Hostile reviews from clients that can connect to the webhook port. `cargo xtask bench
//! hostile-reviews` sends far more.

use std::time::Duration;

use harness::hostile_reviews::{self, WebhookRule};
use serde_json::json;

use crate::support::{TestEnv, Webhooks};

/// Limit of what the manager takes more than at rest, in MiB. A release build takes less than 32 MiB at rest,
/// and must stay below 96 MiB. That of the test takes twice as much at rest.
const GROWTH_LIMIT: f64 = 64.0;
/// Concurrent connections.
const CONNECTIONS: usize = 16;
/// Sizes of the bodies: small ones, and the largest that are accepted.
const SIZES: [usize; 2] = [96 * 1024, 4 * 1024 * 1024 - 8 * 1024];
const LISTS: [usize; 2] = [96 * 1024, 16 * 1024 * 1024 - 8 * 1024];
/// Sends every n-th body. All of them would take minutes.
const STEP: usize = 29;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_reviews_do_not_exhaust_memory_or_delay_others() {
    let (env, webhooks) = (TestEnv::complete().await, Webhooks::new());
    let manager = env.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    let at_rest = manager.peak_memory();
    let target = env.target(webhooks).await;

    let reviewed: Vec<_> =
        env.deployed_configurations().await.iter().flat_map(WebhookRule::from_configuration).collect();
    assert!(reviewed.len() >= 8, "{reviewed:?}");
    let tenants = reviewed.iter().find(|one| one.path == "/tenant/tenants").unwrap().clone();
    let reviews = reviewed.into_iter().flat_map(|one| {
        let path = one.path.clone();
        hostile_reviews::admission(one, &SIZES).map(move |body| (path.clone(), body))
    });
    let conversions =
        hostile_reviews::conversion(&LISTS).map(|body| ("/tenant/convert/tenants".to_owned(), body));
    let real = tenants.review("spec", &json!({ "owners": [{ "kind": "User", "name": "a" }] }).to_string());

    let bodies = reviews.chain(conversions).step_by(STEP);
    let outcome =
        hostile_reviews::attack(&target, CONNECTIONS, bodies, (&tenants.path, &real)).await.unwrap();
    let peak = manager.peak_memory();
    println!("{outcome:?}; at rest {at_rest:.1} MiB, at most {peak:.1} MiB");
    assert!(outcome.real > 0 && outcome.slowest < Duration::from_secs(5), "{outcome:?}");
    assert!(outcome.answers.contains_key(&413) && outcome.answers.contains_key(&200), "{outcome:?}");
    let growth = peak - at_rest;
    assert!(growth < GROWTH_LIMIT, "{peak:.1} MiB after {outcome:?}; at rest it was {at_rest:.1} MiB");
    let log = manager.stop().await;
    assert!(!log.contains("panicked"), "{log}");
}
