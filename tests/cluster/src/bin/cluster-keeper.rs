//! Runs the keeper of a cluster with the name and the number of real nodes in the arguments. The
//! tests use it in place of `cargo xtask cluster keep`.

use anyhow::{Context as _, Result};
use cluster::{Options, named};

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let name = args.next().context("usage: cluster-keeper NAME [REAL_NODES]")?;
    let real_nodes = args.next().map_or(Ok(0), |count| count.parse()).context("parse REAL_NODES")?;
    named::keep(Options { name: Some(name), nodes: 0, real_nodes, ..Options::default() }).await
}
