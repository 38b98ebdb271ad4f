//! Entry point of the manager.

use std::process::ExitCode;

use anyhow::{Context, Result};
use operator_runtime::exit;

fn main() -> ExitCode {
    exit::code(run())
}

fn run() -> Result<()> {
    let flags = manager::parse();
    // One thread is sufficient, because the manager mostly waits for the API server. A second thread
    // takes an eighth more CPU time, because the threads wake each other.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    runtime.block_on(manager::run(flags))
}
