//! Entry point of `ensemble-proxy`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use operator_runtime::exit;
use tenant_proxy::flags::Flags;

fn main() -> ExitCode {
    exit::code(run())
}

fn run() -> Result<()> {
    let flags = Flags::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    runtime.block_on(tenant_proxy::run::run(flags))
}
