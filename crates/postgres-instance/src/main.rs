//! `ensemble-instance`: the first process of a PostgreSQL container.

use std::io;

use anyhow::Result;
use clap::Parser;
use postgres_instance::Settings;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().json().with_writer(io::stderr).init();
    Settings::parse().perform().await
}
