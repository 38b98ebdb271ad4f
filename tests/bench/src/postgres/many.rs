//! The manager with many PostgresClusters at rest.

use std::time::{Duration, Instant};

use anyhow::Result;
use cluster::usage::{cpu, peak, resident};
use serde_json::json;
use tokio::time::sleep;

use super::{environment::TestEnv, rest::print_cpu};
use crate::{figures, requests::wait_until_idle};

/// Time without a request of the manager after which the clusters are at rest.
const IDLE: Duration = Duration::from_secs(5);

/// Prints the memory and the CPU time of the manager without and with clusters.
pub(crate) async fn measure(env: &TestEnv, clusters: usize, seconds: u64) -> Result<()> {
    if clusters == 0 || seconds == 0 {
        return Ok(());
    }
    print(env, "manager without clusters", seconds).await?;
    let began = Instant::now();
    let mut databases = Vec::new();
    for _ in 0..clusters {
        databases.push(env.database(json!({"size": 3})).await?);
    }
    let each = began.elapsed().as_secs_f64() / figures::count(clusters);
    figures::print("cluster of three created, one after the other", each, "s");
    print(env, &format!("manager with {clusters} clusters of three"), seconds).await?;
    figures::print("  memory, peak", peak(env.manager())?, "MiB");
    for database in databases {
        env.end(database).await?;
    }
    Ok(())
}

/// Prints the memory and the CPU time of the manager at rest.
pub(crate) async fn print(env: &TestEnv, label: &str, seconds: u64) -> Result<()> {
    wait_until_idle(env.cluster, IDLE).await?;
    let (spent, began) = (cpu(env.manager())?, Instant::now());
    sleep(Duration::from_secs(seconds)).await;
    figures::print(&format!("{label}, memory"), resident(env.manager())?, "MiB");
    print_cpu(label, cpu(env.manager())?.saturating_sub(spent), began.elapsed());
    Ok(())
}
