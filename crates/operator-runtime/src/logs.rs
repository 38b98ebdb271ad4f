//! Logs, on standard error.

use std::io::{IsTerminal, stderr};

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

/// kube tells of each request that gets no answer, without saying which, and of each that is not allowed, with every
/// attempt. Whoever sent it tells of it once, in words; a filter that names these targets turns them on again.
const QUIET: &str = "kube_client::client::builder=off,kube_runtime::watcher=error";

/// Starts logging. `filter` is a level, or directives such as `info,kube=debug`. Colours are for terminals only, and
/// lines that cannot be written, for nobody reads them any more, are lost: the work goes on.
///
/// # Errors
/// When the filter does not parse.
pub fn start(format: Format, filter: &str) -> Result<()> {
    let filter = EnvFilter::try_new(format!("{QUIET},{filter}")).with_context(|| {
        format!("`{filter}` is no log filter; use a level such as info, or info,kube=debug")
    })?;
    let logs = fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        // Else it tells of its failure on standard error, which panics when that is what failed.
        .log_internal_errors(false);
    match format {
        Format::Text => logs.with_target(false).init(),
        Format::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}
