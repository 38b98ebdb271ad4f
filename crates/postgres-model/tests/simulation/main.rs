//! A cluster of three members in which anything can fail, with the real decisions of the operator,
//! of the instances, and of the election inside.
//!
//! Modelled are the API server, the network, the clocks, and a small PostgreSQL. A ledger notes each
//! row that a client saw acknowledged. Each schedule is derived from one number, which the failure
//! prints.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod full;
mod instance;
mod node;
mod operator;
mod schedule;
mod world;

use schedule::run;

/// Number of schedules. `ENSEMBLE_SCHEDULES` overrides it.
const SCHEDULES: u64 = 20_000;

#[test]
fn no_acknowledged_row_is_lost_and_the_cluster_recovers() {
    let schedules = std::env::var("ENSEMBLE_SCHEDULES").map_or(SCHEDULES, |text| text.parse().unwrap());
    let (mut acknowledged, mut promotions, mut adoptions) = (0, 0, 0);
    for seed in 0..schedules {
        let end = run(seed);
        acknowledged += end.acknowledged;
        promotions += end.promotions;
        adoptions += end.adoptions;
    }
    println!(
        "{schedules} schedules, {acknowledged} rows acknowledged, {promotions} promotions, {adoptions} adoptions, \
         0 rows lost"
    );
    assert!(acknowledged > schedules && promotions > schedules, "the schedules do too little");
    assert!(adoptions > schedules / 10, "the schedules do too little");
}
