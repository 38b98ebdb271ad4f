//! `cargo xtask bench`: measures the speed and the cost of the manager.

mod chaos;
mod figures;
mod hostile_reviews;
mod idle;
mod latency;
mod peers;
mod postgres;
mod proxy;
mod real;
mod requests;
mod reviews;
mod scale;
mod scrape;
mod start;
mod tenants;
mod workload;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use cluster::program::{build_manager, build_proxy};

/// Measures a release build of the manager.
#[derive(Args)]
pub struct Bench {
    /// Benchmarks to run; by default all except `real`, `chaos`, and `postgres`
    #[arg(value_enum)]
    benchmarks: Vec<Benchmark>,

    /// Program of the manager to measure instead of one that is built, such as that of an image
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// Archive with an image of the manager for `real` and `chaos`, instead of one that is built
    #[arg(long)]
    image: Option<PathBuf>,

    #[command(flatten)]
    idle: idle::Idle,

    #[command(flatten)]
    latency: latency::Latency,

    #[command(flatten)]
    start: start::Start,

    #[command(flatten)]
    scale: scale::Scale,

    #[command(flatten)]
    peers: peers::Peers,

    #[command(flatten)]
    reviews: reviews::Reviews,

    #[command(flatten)]
    hostile_reviews: hostile_reviews::HostileReviews,

    #[command(flatten)]
    scrape: scrape::Scrape,

    #[command(flatten)]
    tenants: tenants::Tenants,

    #[command(flatten)]
    proxy: proxy::Proxy,

    #[command(flatten)]
    real: real::Real,

    #[command(flatten)]
    chaos: chaos::Chaos,

    #[command(flatten)]
    postgres: postgres::Postgres,
}

/// One benchmark. Each starts its own cluster.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Benchmark {
    /// Measure memory, CPU time, and requests while nothing changes
    Idle,
    /// Measure the time from a change to the resulting write
    Latency,
    /// Measure the startup with many existing objects
    Start,
    /// Measure one manager with many objects of several kinds
    Scale,
    /// Compare the PodSet controller with the ReplicaSet controller and a PodSet controller in Go
    Peers,
    /// Measure the cost and the latency of admission reviews
    Reviews,
    /// Measure the peak memory under hostile admission and conversion reviews
    HostileReviews,
    /// Measure the cost of metric scrapes
    Scrape,
    /// Measure many Tenants and the creation of namespaces in them
    Tenants,
    /// Measure the proxy of Tenants beside the API server without it
    Proxy,
    /// Measure the image of the manager in containers on real nodes, which need root
    Real,
    /// Disturb a PostgresCluster on real nodes by mixed faults, and count the rows that are lost
    Chaos,
    // The last one, because its control plane runs until the process ends.
    /// Measure PostgresClusters with real PostgreSQL, which needs root and the package postgresql
    Postgres,
}

/// Timeout of a wait for the cluster or the manager.
const TIMEOUT: Duration = Duration::from_mins(5);

impl Bench {
    /// Runs the benchmarks one after the other, each with a release build of its program or with the selected
    /// one, and prints the figures. `image` builds the image of the manager, and returns its archive.
    ///
    /// # Errors
    /// Returns an error if a program cannot be built, or if a benchmark fails.
    pub async fn run(&self, image: fn() -> Result<PathBuf>) -> Result<()> {
        let manager = || match &self.program {
            Some(path) => fs::canonicalize(path)
                .with_context(|| format!("cannot find the program of the manager, {}", path.display())),
            None => build_manager(true),
        };
        let image = || self.image.clone().map_or_else(image, Ok);
        for benchmark in Benchmark::value_variants() {
            let needs_root = matches!(benchmark, Benchmark::Real | Benchmark::Chaos | Benchmark::Postgres);
            let by_default = self.benchmarks.is_empty() && !needs_root;
            if by_default || self.benchmarks.contains(benchmark) {
                println!("building ...");
                match benchmark {
                    Benchmark::Idle => self.idle.run(&manager()?).await?,
                    Benchmark::Latency => self.latency.run(&manager()?).await?,
                    Benchmark::Start => self.start.run(&manager()?).await?,
                    Benchmark::Scale => self.scale.run(&manager()?).await?,
                    Benchmark::Peers => self.peers.run(&manager()?).await?,
                    Benchmark::Reviews => self.reviews.run(&manager()?).await?,
                    Benchmark::HostileReviews => self.hostile_reviews.run(&manager()?).await?,
                    Benchmark::Scrape => self.scrape.run(&manager()?).await?,
                    Benchmark::Tenants => self.tenants.run(&manager()?).await?,
                    Benchmark::Proxy => self.proxy.run(&build_proxy(true)?).await?,
                    Benchmark::Real => self.real.run(image).await?,
                    Benchmark::Chaos => self.chaos.run(image).await?,
                    Benchmark::Postgres => self.postgres.run(&manager()?).await?,
                }
            }
        }
        Ok(())
    }
}
