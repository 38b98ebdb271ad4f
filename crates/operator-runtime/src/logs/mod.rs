//! Logs, on standard error.

mod endpoint;
mod level;

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result};
pub use endpoint::router;
pub use level::Level;
use tracing_subscriber::{Layer, Registry, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line, for log collectors.
    Json,
}

/// A part of the subscriber that does not care what it stands upon.
type Boxed = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts logging. `filter` is a level, or directives such as `info,kube=debug`; what is returned changes it while
/// the process runs. Colours are for terminals only, and lines that cannot be written, for nobody reads them any more,
/// are lost: the work goes on.
///
/// # Errors
/// When the filter does not parse, or the process logs already.
pub fn start(format: Format, filter: &str) -> Result<Level> {
    start_with(format, filter, Vec::new())
}

/// As [`start`], with something else that is told of spans and events, whatever the filter says.
pub(crate) fn start_with(format: Format, filter: &str, more: Vec<Boxed>) -> Result<Level> {
    let (filter, level) = level::adjustable(filter)?;
    let lines = fmt::layer()
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        // Else it tells of its failure on standard error, which panics when that is what failed.
        .log_internal_errors(false);
    let lines: Boxed = match format {
        Format::Text => lines.with_target(false).with_filter(filter).boxed(),
        Format::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let all: Vec<_> = [lines].into_iter().chain(more).collect();
    tracing_subscriber::registry().with(all).try_init().context("this process logs already")?;
    Ok(level)
}
