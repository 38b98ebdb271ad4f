//! What is spent while nothing changes.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;
use cluster::{Cluster, Options};

use super::{
    PATIENCE, figures,
    support::{asked, counted, until_silent},
};
use crate::{
    demo::samples,
    process::{cpu, resident},
    stage::start_manager,
    workspace,
};

#[derive(Args)]
pub(super) struct Rest {
    /// How long to listen for requests while nothing changes, in seconds
    #[arg(long, default_value_t = 300)]
    quiet: u64,
}

impl Rest {
    pub(super) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        let running = start_manager(&cluster, program).await?;
        until_silent(&cluster, Duration::from_secs(5)).await?;
        figures::print("memory, all controllers idle", resident(running.pid())?, "MiB");

        let samples = samples::apply(&cluster, &workspace().join("samples")).await?;
        samples::wait(&cluster, samples, PATIENCE).await?;
        // Longer than an autoscaler takes to make up its mind: one of the samples has one.
        until_silent(&cluster, Duration::from_mins(1)).await?;
        figures::print("memory, all samples ready", resident(running.pid())?, "MiB");
        self.listen(&cluster, running.pid()).await?;
        running.stop()?;
        cluster.stop()
    }

    /// What the manager spends and asks for while nothing changes.
    async fn listen(&self, cluster: &Cluster, manager: u32) -> Result<()> {
        let (mark, spent, began) = (cluster.audit_mark()?, cpu(manager)?, Instant::now());
        tokio::time::sleep(Duration::from_secs(self.quiet)).await;
        let millicores =
            cpu(manager)?.saturating_sub(spent).as_secs_f64() / began.elapsed().as_secs_f64() * 1000.0;
        figures::print(&format!("processor, {} s of silence", self.quiet), millicores, "millicores");
        println!("requests within {} s of silence: {:?}", self.quiet, counted(&asked(cluster, mark)?));
        Ok(())
    }
}
