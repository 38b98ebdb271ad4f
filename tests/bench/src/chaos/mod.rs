//! A PostgresCluster on real nodes: what it costs, and mixed faults while rows are written and read.

mod fault;
mod ledger;
mod load;
mod rest;
mod shop;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use cluster::{Cluster, Options, real_nodes};
use fastrand::Rng;
use local_manager::in_cluster;

use self::{fault::Fault, ledger::Clients, shop::Shop};
use crate::{figures, postgres::outages::print_times};

#[derive(Args)]
pub(crate) struct Chaos {
    /// Minutes during which faults are injected into a PostgresCluster on real nodes
    #[arg(long = "chaos-minutes", value_name = "MINUTES", default_value_t = 60)]
    minutes: u64,

    /// Seed that chooses these faults
    #[arg(long = "chaos-seed", value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// The only faults to choose from, separated by commas
    #[arg(long = "chaos-faults", value_name = "FAULT", value_delimiter = ',')]
    faults: Vec<Fault>,

    /// Duration of the period at rest before these faults, in seconds
    #[arg(long = "chaos-rest-seconds", value_name = "SECONDS", default_value_t = 60)]
    seconds_at_rest: u64,

    #[command(flatten)]
    load: load::Load,
}

/// The nodes. Each has one member.
const NODES: [&str; 3] = ["worker-0", "worker-1", "worker-2"];

impl Chaos {
    pub(crate) async fn run(&self, image: impl FnOnce() -> Result<PathBuf>) -> Result<()> {
        real_nodes::check()?;
        let archive = image()?;
        let options = Options { nodes: 0, real_nodes: NODES.len(), ..Options::default() };
        let cluster = Arc::new(Cluster::start(options).await?);
        in_cluster::install(&cluster, &archive).await?;
        let shop = Shop::create(cluster.clone()).await?;
        if self.seconds_at_rest > 0 {
            rest::measure(&shop, self.seconds_at_rest).await?;
        }
        self.load.measure(&shop).await?;
        let clients = Clients::start(&shop).await?;
        let pauses = self.disturb(&shop, &clients).await?;
        let summary = clients.stop(&shop).await?;
        let count: usize = pauses.values().map(Vec::len).sum();
        println!("seed {}, {} minutes, {count} faults", self.seed, self.minutes);
        for (fault, pauses) in pauses {
            print_times(&format!("{fault}, {} times, no writes", pauses.len()), pauses.into_iter());
        }
        figures::print("rows acknowledged", figures::count(summary.acknowledged), "rows");
        figures::print("rows lost", figures::count(summary.lost), "rows");
        figures::print("reads of standbys", figures::count(summary.reads), "reads");
        figures::print("longest time without writes", summary.longest_pause.as_secs_f64(), "s");
        drop(shop);
        Arc::into_inner(cluster).context("a client still uses the cluster")?.stop()?;
        ensure!(summary.lost == 0, "acknowledged rows are lost");
        Ok(())
    }

    /// Injects faults, each after the cluster has recovered from the one before. Returns the longest time
    /// without writes after each.
    async fn disturb(&self, shop: &Shop, clients: &Clients) -> Result<BTreeMap<Fault, Vec<Duration>>> {
        let (began, mut rng) = (Instant::now(), Rng::with_seed(self.seed));
        let mut pauses = BTreeMap::<_, Vec<_>>::new();
        while began.elapsed() < Duration::from_mins(self.minutes) {
            let (fault, struck) = (Fault::choose(&self.faults, &mut rng), Instant::now());
            clients.begin_pause();
            let target =
                fault.strike(shop, &mut rng).await.with_context(|| format!("cannot inject: {fault}"))?;
            if let Err(error) = shop.until_complete().await {
                // A program of a node that has ended is the likely cause, and this tells its last words.
                shop.cluster.ensure_running()?;
                return Err(error.context(format!("after {fault} of {target}")));
            }
            clients.until_written().await?;
            println!(
                "{:>6.0} s  {fault} of {target}: complete after {:.1} s, {:.1} s without writes",
                (struck - began).as_secs_f64(),
                struck.elapsed().as_secs_f64(),
                clients.longest_pause().as_secs_f64()
            );
            pauses.entry(fault).or_default().push(clients.longest_pause());
        }
        Ok(pauses)
    }
}
