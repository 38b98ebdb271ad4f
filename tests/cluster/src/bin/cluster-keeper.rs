//! Runs the keeper of the cluster named by the only argument. The tests use it in place of `cargo
//! xtask cluster keep`.

use anyhow::{Context as _, Result};
use cluster::{Options, named};

#[tokio::main]
async fn main() -> Result<()> {
    let name = std::env::args().nth(1).context("usage: cluster-keeper NAME")?;
    named::keep(Options { name: Some(name), nodes: 0, ..Options::default() }).await
}
