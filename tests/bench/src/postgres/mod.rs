//! PostgresClusters with real PostgreSQL: how long they take no writes, and what they cost.

mod application;
mod backups;
mod bare;
mod disturbance;
mod environment;
mod ledger;
mod many;
pub(crate) mod outages;
pub(crate) mod pgbench;
mod processes;
pub(crate) mod rest;
mod simulated;
pub(crate) mod throughput;
mod writers;

use std::path::Path;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use postgres_processes::programs;
use rustix::process::geteuid;
use serde_json::json;

use disturbance::Disturbance;
use environment::TestEnv;

#[derive(Args)]
pub(crate) struct Postgres {
    /// Number of times that a PostgresCluster loses its primary, in each way
    #[arg(long = "postgres-rounds", default_value_t = 10)]
    rounds: usize,

    /// What interrupts the writes to a PostgresCluster; by default all of these
    #[arg(long = "postgres-disturbances", value_delimiter = ',', value_enum)]
    disturbances: Vec<Disturbance>,

    /// Duration of the Leases of PostgresClusters in seconds
    #[arg(long = "postgres-lease-seconds", value_name = "SECONDS", default_value_t = 15,
        value_parser = clap::value_parser!(u64).range(6..=60))]
    lease: u64,

    /// Duration of the periods at rest of PostgresClusters in seconds
    #[arg(long = "postgres-rest-seconds", value_name = "SECONDS", default_value_t = 120)]
    rest: u64,

    /// Number of PostgresClusters of three members for one manager
    #[arg(long = "postgres-clusters", default_value_t = 10)]
    clusters: usize,

    /// Number of PostgresClusters of three simulated members for one manager
    #[arg(long = "postgres-simulated", default_value_t = 100)]
    simulated: usize,

    #[command(flatten)]
    throughput: throughput::Throughput,

    #[command(flatten)]
    backups: backups::Backups,
}

impl Postgres {
    /// Runs the parts of the benchmark whose number of repetitions is not zero.
    pub(crate) async fn run(&self, manager: &Path) -> Result<()> {
        check_requirements()?;
        let env = TestEnv::start(manager, self.lease).await?;
        many::measure(&env, self.clusters, self.rest).await?;
        simulated::measure(&env, self.simulated, self.rest).await?;
        if self.rest > 0 || self.rounds > 0 {
            let mut database = env.database(json!({"size": 3})).await?;
            if self.rest > 0 {
                rest::measure(&env, &database.kubelet, self.rest).await?;
            }
            for disturbance in Disturbance::value_variants() {
                if self.disturbances.is_empty() || self.disturbances.contains(disturbance) {
                    outages::measure(&mut database, *disturbance, self.rounds).await?;
                }
            }
            env.end(database).await?;
        }
        self.throughput.measure(&env).await?;
        self.backups.measure(&env).await?;
        env.stop()
    }
}

/// Checks what a benchmark needs of this machine.
fn check_requirements() -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "the benchmark postgres needs root: each member runs as the user {} in a PID namespace of its own",
        programs::USER
    );
    for program in ["postgres", "pgbench", "pg_basebackup"] {
        let path = programs::folder()?.join(program);
        ensure!(path.exists(), "{} is missing: install the package postgresql", path.display());
    }
    Ok(())
}
