//! Clients that write and read through the Services, from whichever node works.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use cluster::{Cluster, wait::eventually};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_postgres::{Client, NoTls};

use super::{NODES, shop::Shop};

/// Time between two rows, and between two attempts to connect.
const PACE: Duration = Duration::from_millis(20);
/// Time between two reads.
const READ: Duration = Duration::from_millis(500);
/// How long a statement or a connection may take.
const LIMIT: Duration = Duration::from_secs(3);
/// How long the next row may take after the cluster has recovered.
const PATIENCE: Duration = Duration::from_mins(2);

/// What came of all rows.
pub(super) struct Summary {
    pub(super) acknowledged: usize,
    pub(super) lost: usize,
    pub(super) reads: usize,
    pub(super) longest_pause: Duration,
}

/// What the clients share.
#[derive(Default)]
struct Progress {
    stopped: AtomicBool,
    /// Number of the last row that was sent.
    sent: AtomicU64,
    /// Number of rows that were acknowledged.
    written: AtomicU64,
    /// Longest time between two rows since the last fault, and of all, in milliseconds.
    pause: AtomicU64,
    longest_pause: AtomicU64,
}

/// Where to connect to.
struct Target {
    cluster: Arc<Cluster>,
    address: SocketAddr,
    password: Vec<u8>,
}

impl Target {
    async fn connect(&self, node: &str) -> Result<Client> {
        let stream = timeout(LIMIT, self.cluster.node_network(node)?.connect(self.address)).await??;
        let mut config = tokio_postgres::Config::new();
        config.user("app").dbname("app").password(&self.password);
        let (client, connection) = timeout(LIMIT, config.connect_raw(stream, NoTls)).await??;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Connects from the first node that works.
    async fn connect_from_any(&self) -> Result<Client> {
        let mut last = None;
        for node in NODES {
            match self.connect(node).await {
                Ok(client) => return Ok(client),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("there are no nodes")?)
    }
}

/// A writer, and a reader of standbys.
pub(super) struct Clients {
    primary: Arc<Target>,
    progress: Arc<Progress>,
    writer: JoinHandle<Vec<i64>>,
    reader: JoinHandle<Result<usize>>,
}

impl Clients {
    pub(super) async fn start(shop: &Shop) -> Result<Self> {
        let target = async |service: &str| -> Result<Arc<Target>> {
            let (address, password) = (shop.address(service).await?, shop.password().await?);
            Ok(Arc::new(Target { cluster: shop.cluster.clone(), address, password }))
        };
        let (primary, standbys) = (target("shop-rw").await?, target("shop-ro").await?);
        let client = primary.connect_from_any().await?;
        client.batch_execute("CREATE TABLE orders (number bigint PRIMARY KEY)").await?;
        let progress = Arc::<Progress>::default();
        let writer = tokio::spawn(write(primary.clone(), progress.clone()));
        let reader = tokio::spawn(read(standbys, progress.clone()));
        Ok(Self { primary, progress, writer, reader })
    }

    /// Begins another measurement of the longest time without writes.
    pub(super) fn begin_pause(&self) {
        self.progress.pause.store(0, Ordering::Relaxed);
    }

    /// Returns the longest time without writes since the last fault.
    pub(super) fn longest_pause(&self) -> Duration {
        Duration::from_millis(self.progress.pause.load(Ordering::Relaxed))
    }

    /// Waits until more rows are written.
    pub(super) async fn until_written(&self) -> Result<()> {
        let written = || self.progress.written.load(Ordering::Relaxed);
        let before = written();
        eventually("more rows to be written", PATIENCE, async || Ok(written() > before)).await
    }

    /// Stops the clients, and looks for the rows that were acknowledged.
    pub(super) async fn stop(self, shop: &Shop) -> Result<Summary> {
        self.progress.stopped.store(true, Ordering::Relaxed);
        let (acknowledged, reads) = (self.writer.await?, self.reader.await??);
        shop.until_complete().await?;
        let client = self.primary.connect_from_any().await?;
        let rows = client.query("SELECT number FROM orders", &[]).await?;
        let present: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let lost = acknowledged.iter().filter(|number| !present.contains(number)).count();
        let longest_pause = Duration::from_millis(self.progress.longest_pause.load(Ordering::Relaxed));
        Ok(Summary { acknowledged: acknowledged.len(), lost, reads, longest_pause })
    }
}

/// Writes rows until the end. Returns those that were acknowledged.
async fn write(primary: Arc<Target>, progress: Arc<Progress>) -> Vec<i64> {
    let (mut number, mut acknowledged, mut last) = (0, Vec::new(), Instant::now());
    for node in NODES.iter().cycle() {
        let client = primary.connect(node).await;
        while let Ok(client) = &client {
            if progress.stopped.load(Ordering::Relaxed) {
                return acknowledged;
            }
            number += 1;
            progress.sent.store(number, Ordering::Relaxed);
            let row = number.cast_signed();
            let written = timeout(LIMIT, client.execute("INSERT INTO orders VALUES ($1)", &[&row])).await;
            if !matches!(written, Ok(Ok(1))) {
                break;
            }
            acknowledged.push(row);
            progress.written.fetch_add(1, Ordering::Relaxed);
            let pause = u64::try_from(last.elapsed().as_millis()).unwrap_or(u64::MAX);
            progress.pause.fetch_max(pause, Ordering::Relaxed);
            progress.longest_pause.fetch_max(pause, Ordering::Relaxed);
            last = Instant::now();
            sleep(PACE).await;
        }
        sleep(PACE).await;
    }
    acknowledged
}

/// Reads from standbys until the end. Returns how often that worked.
async fn read(standbys: Arc<Target>, progress: Arc<Progress>) -> Result<usize> {
    let mut reads = 0;
    while !progress.stopped.load(Ordering::Relaxed) {
        if let Ok(client) = standbys.connect_from_any().await {
            let query = client.query_one("SELECT coalesce(max(number), 0) FROM orders", &[]);
            if let Ok(Ok(row)) = timeout(LIMIT, query).await {
                let (read, sent): (i64, _) = (row.get(0), progress.sent.load(Ordering::Relaxed));
                ensure!(
                    read.cast_unsigned() <= sent,
                    "a standby has row {read}, and {sent} was the last one"
                );
                reads += 1;
            }
        }
        sleep(READ).await;
    }
    Ok(reads)
}
