//! Logs on standard error.

mod endpoint;
mod level;

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result};
pub use endpoint::router;
pub use level::Level;
use tracing_subscriber::{Layer, Registry, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text.
    Text,
    /// One JSON object per line, for log collectors.
    Json,
}

/// A layer that does not depend on the layers below it.
type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts logging. `filter` is a level, or directives such as `info,kube=debug`. The returned
/// handle changes it at run time. Colours are used on terminals only. Lines that cannot be written
/// are dropped, so that work continues.
///
/// # Errors
/// Returns an error if the filter is invalid or logging has already started.
pub fn start(format: Format, filter: &str) -> Result<Level> {
    start_with(format, filter, Vec::new())
}

/// Starts logging like [`start`], with further layers that receive all spans and events.
pub(crate) fn start_with(format: Format, filter: &str, more: Vec<BoxedLayer>) -> Result<Level> {
    let (filter, level) = level::adjustable(filter)?;
    let lines = fmt::layer()
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        // Otherwise the layer reports a failure on standard error, which panics if that is what
        // failed.
        .log_internal_errors(false);
    let lines: BoxedLayer = match format {
        Format::Text => lines.with_target(false).with_filter(filter).boxed(),
        Format::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let all: Vec<_> = [lines].into_iter().chain(more).collect();
    tracing_subscriber::registry()
        .with(all)
        .try_init()
        .context("cannot start logging: it has already started")?;
    Ok(level)
}
