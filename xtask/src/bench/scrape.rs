//! What it costs to be measured.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{Cluster, Options};

use super::{PATIENCE, figures, support::until_silent};
use crate::{
    demo::samples,
    process::{cpu, resident},
    stage::{free_address, launch_with, prepare},
    workspace,
};

#[derive(Args)]
pub(super) struct Scrape {
    /// How often to read the metrics
    #[arg(long, default_value_t = 500)]
    scrapes: u32,
}

impl Scrape {
    pub(super) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        prepare(&cluster).await?;
        let metrics = free_address()?;
        let flags = [
            "--health-probe-bind-address=0".to_owned(),
            "--webhook-bind-address=127.0.0.1:0".to_owned(),
            format!("--metrics-bind-address={metrics}"),
            "--metrics-secure=false".to_owned(),
        ];
        let running = launch_with(&cluster, program, &flags).await?;
        let samples = samples::apply(&cluster, &workspace().join("samples")).await?;
        samples::wait(&cluster, samples, PATIENCE).await?;
        until_silent(&cluster, Duration::from_secs(5)).await?;

        let before = resident(running.pid())?;
        let spent = cpu(running.pid())?;
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..self.scrapes {
            let began = Instant::now();
            bytes = scrape(metrics)?;
            times.push(began.elapsed());
        }
        let spent = cpu(running.pid())?.saturating_sub(spent) / self.scrapes.max(1);
        times.sort();
        figures::print("scrape, size in thousand bytes", f64::from(u32::try_from(bytes)?) / 1000.0, "kB");
        figures::print("scrape, median", figures::percentile(&times, 50), "ms");
        figures::print("scrape, 99th percentile", figures::percentile(&times, 99), "ms");
        figures::print("scrape, processor", figures::milliseconds(spent), "ms");
        figures::print("memory before the scrapes", before, "MiB");
        figures::print("memory after them", resident(running.pid())?, "MiB");
        running.stop()?;
        cluster.stop()
    }
}

/// Reads the metrics, each time over a new connection. Returns how many bytes there were.
fn scrape(metrics: SocketAddr) -> Result<usize> {
    let mut stream = TcpStream::connect(metrics).context("cannot reach the metrics")?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").context("an answer has a head and a body")?.1.len())
}
