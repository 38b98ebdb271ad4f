//! Logs, on standard error.

use anyhow::{Context, Result};
use tracing_subscriber::{EnvFilter, fmt};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line, for log collectors.
    Json,
}

/// Starts logging. `filter` is a level, or directives such as `info,kube=debug`.
///
/// # Errors
/// When the filter does not parse.
pub fn start(format: Format, filter: &str) -> Result<()> {
    let filter = EnvFilter::try_new(filter).with_context(|| {
        format!("`{filter}` is no log filter; use a level such as info, or info,kube=debug")
    })?;
    let logs = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => logs.with_target(false).init(),
        Format::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}
