//! Memory, CPU time, and requests while nothing changes.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;
use cluster::{
    Cluster, Options,
    program::workspace,
    usage::{cpu, resident},
};
use local_manager::{launch::start_manager, samples};

use crate::{
    TIMEOUT, figures,
    requests::{count_requests, manager_requests, wait_until_idle},
};

#[derive(Args)]
pub(crate) struct Idle {
    /// Duration of the idle period in seconds
    #[arg(long, default_value_t = 300)]
    idle_seconds: u64,
}

impl Idle {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        let running = start_manager(&cluster, program).await?;
        wait_until_idle(&cluster, Duration::from_secs(5)).await?;
        figures::print("memory, all controllers idle", resident(running.pid())?, "MiB");

        let samples = samples::apply(&cluster, &workspace().join("samples")).await?;
        samples::wait(&cluster, samples, TIMEOUT).await?;
        // Longer than the sync period of the HorizontalPodAutoscaler of a sample.
        wait_until_idle(&cluster, Duration::from_mins(1)).await?;
        figures::print("memory, all samples ready", resident(running.pid())?, "MiB");
        self.measure(&cluster, running.pid()).await?;
        running.stop()?;
        cluster.stop()
    }

    /// Prints the CPU time and the requests of the manager during the idle period.
    async fn measure(&self, cluster: &Cluster, manager: u32) -> Result<()> {
        let (mark, spent, began) = (cluster.audit_mark()?, cpu(manager)?, Instant::now());
        tokio::time::sleep(Duration::from_secs(self.idle_seconds)).await;
        let millicores =
            cpu(manager)?.saturating_sub(spent).as_secs_f64() / began.elapsed().as_secs_f64() * 1000.0;
        figures::print(&format!("CPU, idle for {} s", self.idle_seconds), millicores, "millicores");
        println!(
            "requests, idle for {} s: {:?}",
            self.idle_seconds,
            count_requests(&manager_requests(cluster, mark)?)
        );
        Ok(())
    }
}
