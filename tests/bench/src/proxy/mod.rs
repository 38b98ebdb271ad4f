//! The proxy of Tenants, beside the API server without it and other proxies.

mod client;
mod environment;
mod others;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use client::{Connection, Target};
use cluster::usage::{cpu, resident};
use environment::{Environment, LARGE, OBJECT, PAUSE};
use futures::future::try_join_all;
use http_body_util::BodyExt;

use crate::{TIMEOUT, figures};

#[derive(Args)]
pub(crate) struct Proxy {
    /// Number of Tenants, each with a namespace
    #[arg(long = "proxy-tenants", value_name = "TENANTS", default_value_t = 1000)]
    tenants: usize,

    /// Number of requests of each measurement
    #[arg(long = "proxy-requests", value_name = "REQUESTS", default_value_t = 5000)]
    requests: usize,

    /// Number of watches, each on a connection of its own
    #[arg(long = "proxy-watches", value_name = "WATCHES", default_value_t = 500)]
    watches: usize,

    /// Program of Capsule's proxy, to measure it too. It listens on ports 8080, 8081, and 9001
    #[arg(long = "proxy-peer", value_name = "FILE")]
    peer: Option<PathBuf>,
}

/// Time between two requests whose latency is measured: 500 in a second.
const INTERVAL: Duration = Duration::from_millis(2);
/// Concurrent requests of the measurement of CPU time.
const CONCURRENCY: usize = 32;
const NAMESPACES: &str = "/api/v1/namespaces?resourceVersion=0";
/// What the proxy asks for, by an administrator.
const SELECTED: &str =
    "/api/v1/namespaces?labelSelector=capsule.clastix.io%2Ftenant%20in%20%28oil%29&resourceVersion=0";

impl Proxy {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let environment = Environment::start(program).await?;
        let pid = environment.proxy.pid();
        figures::print("memory, without Tenants", resident(pid)?, "MiB");
        environment.create(self.tenants).await?;
        tokio::time::sleep(PAUSE).await;
        figures::print(&format!("memory, {} Tenants", self.tenants), resident(pid)?, "MiB");

        let (through, direct) = (&environment.through, &environment.direct);
        self.latency("GET of 2 KiB", (through, OBJECT), (direct, OBJECT)).await?;
        self.latency("view of 10 namespaces", (through, NAMESPACES), (&environment.admin, SELECTED)).await?;
        self.requests_of_a_second("GET of 2 KiB", (pid, through), OBJECT).await?;
        self.requests_of_a_second("view of 10 namespaces", (pid, through), NAMESPACES).await?;
        self.others(&environment).await?;
        Self::bytes_of_a_second(&environment).await?;
        self.watches(&environment).await?;
        environment.proxy.stop()?;
        environment.cluster.stop()
    }

    /// Measures requests that other proxies forward.
    async fn others(&self, environment: &Environment) -> Result<()> {
        for other in others::start(&environment.cluster, self.peer.as_deref()).await? {
            let (name, pid, through) = (other.name, other.process.pid(), &other.through);
            figures::print(&format!("{name}: memory"), resident(pid)?, "MiB");
            let get = format!("{name}: GET of 2 KiB");
            self.latency(&get, (through, OBJECT), (&environment.direct, OBJECT)).await?;
            self.requests_of_a_second(&get, (pid, through), OBJECT).await?;
            other.process.stop()?;
        }
        Ok(())
    }

    /// Measures the time of requests with and without the proxy, in turns.
    async fn latency(
        &self,
        what: &str,
        (through, path): (&Target, &str),
        (direct, direct_path): (&Target, &str),
    ) -> Result<()> {
        let (through, direct) = (through.connect().await?, direct.connect().await?);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        let mut ticks = tokio::time::interval(INTERVAL);
        for _ in 0..self.requests {
            ticks.tick().await;
            with.push(timed(&through, path).await?);
            ticks.tick().await;
            without.push(timed(&direct, direct_path).await?);
        }
        with.sort();
        without.sort();
        for percent in [50, 99] {
            let (with, without) =
                (figures::percentile(&with, percent), figures::percentile(&without, percent));
            figures::print(&format!("{what}, percentile {percent}, direct"), without, "ms");
            figures::print_exactly(&format!("{what}, percentile {percent}, added"), with - without, "ms");
        }
        Ok(())
    }

    /// Measures how many requests the proxy forwards in a second of CPU time.
    async fn requests_of_a_second(
        &self,
        what: &str,
        (pid, through): (u32, &Target),
        path: &str,
    ) -> Result<()> {
        let concurrency = if path == OBJECT { CONCURRENCY } else { 4 };
        let each = self.requests.div_ceil(concurrency);
        let connections = try_join_all((0..concurrency).map(|_| through.connect())).await?;
        let (spent, began) = (cpu(pid)?, Instant::now());
        let all = connections.iter().map(|connection| async move {
            for _ in 0..each {
                connection.get(path).await?;
            }
            anyhow::Ok(())
        });
        try_join_all(all).await?;
        let (spent, took) = (cpu(pid)?.saturating_sub(spent), began.elapsed());
        let requests = figures::count(each * concurrency);
        figures::print(&format!("{what}, per second of CPU"), requests / spent.as_secs_f64(), "requests");
        figures::print(&format!("{what}, per second"), requests / took.as_secs_f64(), "requests");
        Ok(())
    }

    /// Measures how many bytes of large answers the proxy forwards in a second of CPU time.
    async fn bytes_of_a_second(environment: &Environment) -> Result<()> {
        let pid = environment.proxy.pid();
        let connection = environment.through.connect().await?;
        let (spent, mut bytes) = (cpu(pid)?, 0);
        for _ in 0..20 {
            bytes += connection.get(LARGE).await?;
        }
        let spent = cpu(pid)?.saturating_sub(spent);
        let mebibytes = figures::count(bytes) / f64::from(1 << 20);
        figures::print("large answers, per second of CPU", mebibytes / spent.as_secs_f64(), "MiB");
        figures::print("memory, after large answers", resident(pid)?, "MiB");
        Ok(())
    }

    /// Measures many watches, and the time until all of them end when their user owns another Tenant.
    async fn watches(&self, environment: &Environment) -> Result<()> {
        let pid = environment.proxy.pid();
        let before = resident(pid)?;
        let mut watches = Vec::new();
        for _ in 0..self.watches {
            let connection = environment.through.connect().await?;
            let watch = connection.open("/api/v1/namespaces?watch=true").await?;
            watches.push((connection, watch.into_body()));
        }
        let more = resident(pid)? - before;
        figures::print(
            &format!("memory, {} watches on connections of their own", self.watches),
            more,
            "MiB more",
        );
        let spent = cpu(pid)?;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let millicores = (cpu(pid)?.saturating_sub(spent)).as_secs_f64() / 30.0 * 1000.0;
        figures::print(&format!("CPU, {} silent watches", self.watches), millicores, "millicores");
        let began = Instant::now();
        environment.set_owner("alice").await?;
        let ends = watches.into_iter().map(async |(connection, body)| {
            let all =
                tokio::time::timeout(TIMEOUT, body.collect()).await.context("a watch does not end")??;
            drop(connection);
            let text = all.to_bytes();
            anyhow::ensure!(text.windows(7).any(|part| part == b"Expired"), "a watch ended without an error");
            anyhow::Ok(())
        });
        try_join_all(ends).await?;
        figures::print(
            &format!("new owner, until {} watches ended", self.watches),
            figures::milliseconds(began.elapsed()),
            "ms",
        );
        Ok(())
    }
}

async fn timed(connection: &Connection, path: &str) -> Result<Duration> {
    let began = Instant::now();
    connection.get(path).await?;
    Ok(began.elapsed())
}
