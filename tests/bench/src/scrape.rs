//! Cost of metric scrapes.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{
    Cluster, Options,
    program::workspace,
    reserve_address,
    usage::{cpu, resident},
};
use local_manager::{
    launch::{launch_with_flags, prepare},
    samples,
};

use crate::{TIMEOUT, figures, requests::wait_until_idle};

#[derive(Args)]
pub(crate) struct Scrape {
    /// Number of scrapes
    #[arg(long, default_value_t = 500)]
    scrapes: u32,
}

impl Scrape {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        prepare(&cluster).await?;
        let metrics = reserve_address()?;
        let flags = [
            "--health-probe-bind-address=0".to_owned(),
            "--webhook-bind-address=127.0.0.1:0".to_owned(),
            format!("--metrics-bind-address={metrics}"),
            "--metrics-secure=false".to_owned(),
        ];
        let running = launch_with_flags(&cluster, program, &flags).await?;
        let samples = samples::apply(&cluster, &workspace().join("samples")).await?;
        samples::wait(&cluster, samples, TIMEOUT).await?;
        wait_until_idle(&cluster, Duration::from_secs(5)).await?;

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
        figures::print("scrape, size", f64::from(u32::try_from(bytes)?) / 1000.0, "kB");
        figures::print("scrape, median", figures::percentile(&times, 50), "ms");
        figures::print("scrape, 99th percentile", figures::percentile(&times, 99), "ms");
        figures::print("scrape, CPU time", figures::milliseconds(spent), "ms");
        figures::print("memory, before", before, "MiB");
        figures::print("memory, after", resident(running.pid())?, "MiB");
        running.stop()?;
        cluster.stop()
    }
}

/// Reads the metrics over a new connection, and returns their size in bytes.
fn scrape(metrics: SocketAddr) -> Result<usize> {
    let mut stream = TcpStream::connect(metrics).context("cannot connect to the metrics endpoint")?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response.split_once("\r\n\r\n").context("the response of /metrics has no body")?.1.len())
}
