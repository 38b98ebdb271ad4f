//! Transactions a second, beside a PostgreSQL without an instance manager.

use anyhow::Result;
use clap::Args;
use postgres_processes::Database;
use serde_json::json;

use super::{application::Application, bare::Bare, environment::TestEnv, pgbench::Server};
use crate::figures;

#[derive(Args)]
pub(crate) struct Throughput {
    /// Number of pairs of runs of pgbench
    #[arg(long = "pgbench-pairs", default_value_t = 3)]
    pairs: usize,

    /// Duration of a run of pgbench in seconds
    #[arg(long = "pgbench-seconds", default_value_t = 30)]
    seconds: u64,

    /// Scale of pgbench: one is 100,000 rows
    #[arg(long = "pgbench-scale", value_name = "SCALE", default_value_t = 10)]
    scale_factor: u32,
}

impl Throughput {
    /// Prints the rates of a single member and of PostgreSQL alone, and that of three members.
    pub(crate) async fn measure(&self, env: &TestEnv) -> Result<()> {
        if self.pairs == 0 {
            return Ok(());
        }
        self.compare(env).await?;
        let mut three = env.database(json!({"size": 3})).await?;
        let application = Application::of(&three.kubelet).await?;
        let primary = server(&mut three, &application)?;
        primary.initialize(self.scale_factor).await?;
        let mut rates = Vec::new();
        for _ in 0..self.pairs {
            rates.push(self.run(&primary).await?);
        }
        print_rates("pgbench, three members", &mut rates);
        env.end(three).await
    }

    /// Measures a single member and PostgreSQL alone, alternately.
    async fn compare(&self, env: &TestEnv) -> Result<()> {
        let mut single = env.database(json!({"size": 1})).await?;
        let application = Application::of(&single.kubelet).await?;
        let managed = server(&mut single, &application)?;
        managed.initialize(self.scale_factor).await?;
        let copy = Bare::copy_of(single.primary()?)?;
        let bare = Server { sockets: copy.sockets(), application: &application };
        bare.until_ready().await?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for pair in 0..self.pairs {
            // The one that is first changes, so that a drift of the machine cancels out.
            if pair % 2 == 0 {
                with.push(self.run(&managed).await?);
            }
            without.push(self.run(&bare).await?);
            if pair % 2 == 1 {
                with.push(self.run(&managed).await?);
            }
        }
        print_rates("pgbench, PostgreSQL alone", &mut without);
        print_rates("pgbench, a single member", &mut with);
        let ratio = median(&with) / median(&without);
        figures::print("  relative to PostgreSQL alone", ratio * 100.0, "%");
        env.end(single).await
    }

    async fn run(&self, server: &Server<'_>) -> Result<f64> {
        server.checkpoint().await?;
        server.transactions(self.seconds).await
    }
}

/// Returns the primary of a database.
pub(crate) fn server<'a>(database: &mut Database, application: &'a Application) -> Result<Server<'a>> {
    Ok(Server { sockets: database.primary()?.folder().join("sockets"), application })
}

/// Prints the median, the lowest, and the highest of some rates, and sorts them.
pub(crate) fn print_rates(label: &str, rates: &mut [f64]) {
    rates.sort_by(f64::total_cmp);
    figures::print(&format!("{label}, median"), median(rates), "transactions/s");
    let ends =
        rates.first().zip(rates.last()).map(|(lowest, highest)| format!("{lowest:.1} to {highest:.1}"));
    println!("  lowest and highest: {}", ends.unwrap_or_default());
}

/// Returns the median of sorted rates.
pub(crate) fn median(rates: &[f64]) -> f64 {
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
