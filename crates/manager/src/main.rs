//! The manager's entry point.

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let flags = manager::parse();
    // Two threads are plenty: the work is waiting for the API server.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    runtime.block_on(manager::run(flags))
}
