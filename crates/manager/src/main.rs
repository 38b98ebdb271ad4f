//! The manager's entry point.

use std::process::ExitCode;

use anyhow::{Context, Result};
use operator_runtime::exit;

fn main() -> ExitCode {
    exit::code(run())
}

fn run() -> Result<()> {
    let flags = manager::parse();
    // One thread is plenty: the work is waiting for the API server. A second one costs an eighth more of processor
    // time, for they wake each other.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    runtime.block_on(manager::run(flags))
}
