//! The time without acknowledged writes, and the rows that are lost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cluster::wait::eventually;
use postgres_processes::Database;
use tokio::time::sleep;

use super::{disturbance::Disturbance, writers::Writers};
use crate::{TIMEOUT, figures};

/// What a client noticed of one disturbance.
struct Outage {
    /// Time without acknowledged writes.
    pause: Duration,
    /// Time until the last write that the former primary acknowledged.
    last: Duration,
    /// Time until the first write that another member acknowledged, if one did.
    first: Option<Duration>,
}

/// Disturbs the primary several times while clients write, and prints the times without writes.
///
/// # Errors
/// Returns an error if the database does not recover, or an acknowledged row is lost.
pub(crate) async fn measure(database: &mut Database, disturbance: Disturbance, rounds: usize) -> Result<()> {
    if rounds == 0 {
        return Ok(());
    }
    let label = disturbance.label();
    let mut writers = Writers::start(database).await?;
    let mut outages = Vec::new();
    for _ in 0..rounds {
        let outage = outage(database, disturbance, &writers).await;
        outages.push(outage.with_context(|| format!("{label}: {}", database.kubelet.logs()))?);
    }
    let lost = writers.finish(database).await?;
    print(disturbance, &outages);
    println!("{label}: {} rows acknowledged, {lost} lost", writers.ledger.len());
    ensure!(lost == 0, "{label}: the database lost {lost} acknowledged rows");
    Ok(())
}

/// Disturbs the primary once.
async fn outage(database: &mut Database, disturbance: Disturbance, writers: &Writers) -> Result<Outage> {
    let ledger = &writers.ledger;
    until_written(writers).await?;
    sleep(disturbance.rest()).await;
    let primary = database.status.primary.current.clone();
    let began = Instant::now();
    disturbance.cause(database).await?;
    until_written(writers).await?;
    database.until_complete().await?;
    Ok(Outage {
        pause: ledger.longest_gap(began).context("nothing was written")?,
        last: ledger.last_of(&primary, began).context("the primary acknowledged nothing")?,
        first: ledger.first_of_others(&primary, began),
    })
}

/// Waits until a row is acknowledged.
async fn until_written(writers: &Writers) -> Result<()> {
    let now = Instant::now();
    eventually("a row to be acknowledged", TIMEOUT, async || Ok(writers.ledger.has_row_after(now))).await
}

fn print(disturbance: Disturbance, outages: &[Outage]) {
    let label = disturbance.label();
    print_times(&format!("{label}, no writes"), outages.iter().map(|outage| outage.pause));
    if disturbance == Disturbance::Isolation {
        print_times("  last write there", outages.iter().map(|outage| outage.last));
        print_times("  first write elsewhere", outages.iter().filter_map(|outage| outage.first));
    }
}

/// Prints the median and the longest of some times.
pub(crate) fn print_times(label: &str, times: impl Iterator<Item = Duration>) {
    let mut times: Vec<_> = times.collect();
    times.sort();
    figures::print(&format!("{label}, median"), figures::percentile(&times, 50), "ms");
    figures::print(&format!("{label}, worst"), figures::percentile(&times, 100), "ms");
}
