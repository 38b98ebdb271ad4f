//! Strangers at the webhook port, who send what takes the most. `cargo xtask bench hostile-reviews` sends far more.

use std::time::Duration;

use harness::hostile::{self, Reviewed};
use serde_json::json;

use crate::support::{Stage, Webhooks};

/// What a manager may take, whatever it is sent, in MiB.
const LARGEST: u64 = 96;
/// Connections at once.
const CONNECTIONS: usize = 16;
/// The sizes of the bodies: small ones, and the largest that are taken.
const SIZES: [usize; 2] = [96 * 1024, 4 * 1024 * 1024 - 8 * 1024];
const LISTS: [usize; 2] = [96 * 1024, 16 * 1024 * 1024 - 8 * 1024];
/// Of the bodies every so many is sent: all of them take minutes.
const STEP: usize = 29;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_reviews_neither_take_memory_nor_keep_real_ones_waiting() {
    let (stage, webhooks) = (Stage::complete().await, Webhooks::new());
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    let at_rest = manager.peak_memory();
    let target = stage.target(webhooks).await;

    let reviewed: Vec<_> = stage.deployed_configurations().await.iter().flat_map(Reviewed::of).collect();
    assert!(reviewed.len() >= 8, "{reviewed:?}");
    let tenants = reviewed.iter().find(|one| one.path == "/tenant/tenants").unwrap().clone();
    let reviews = reviewed.into_iter().flat_map(|one| {
        let path = one.path.clone();
        hostile::admission(one, &SIZES).map(move |body| (path.clone(), body))
    });
    let conversions = hostile::conversion(&LISTS).map(|body| ("/tenant/convert/tenants".to_owned(), body));
    let real = tenants.review("spec", &json!({ "owners": [{ "kind": "User", "name": "a" }] }).to_string());

    let bodies = reviews.chain(conversions).step_by(STEP);
    let outcome = hostile::attack(&target, CONNECTIONS, bodies, (&tenants.path, &real)).await.unwrap();
    let peak = manager.peak_memory();
    println!("{outcome:?}; at rest {at_rest} MiB, at most {peak} MiB");
    assert!(outcome.real > 0 && outcome.slowest < Duration::from_secs(5), "{outcome:?}");
    assert!(outcome.answers.contains_key(&413) && outcome.answers.contains_key(&200), "{outcome:?}");
    assert!(peak < LARGEST, "{peak} MiB after {outcome:?}; at rest it was {at_rest} MiB");
    let log = manager.ask_to_end().await;
    assert!(!log.contains("panicked"), "{log}");
}
