//! Logs, and traces if they are built in and enabled.

#[cfg(feature = "otlp")]
mod otlp;

use anyhow::Result;

use crate::logs::{self, Format, Level};

/// Destination of traces.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Its base address, such as `http://collector:4318`.
    pub endpoint: String,
    /// Version of this process, as reported to the collector.
    pub version: &'static str,
    /// Identity of this replica.
    pub instance: String,
}

/// Running logs and traces.
#[derive(Debug)]
pub struct Telemetry {
    /// Handle that changes the log level.
    pub level: Level,
    #[cfg(feature = "otlp")]
    traces: Option<otlp::Traces>,
}

/// Starts logging like [`logs::start`], and tracing if there is a collector.
///
/// # Errors
/// Returns an error if the filter is invalid, logging has already started, or the collector's
/// address is invalid. An unreachable collector is logged and does not stop the process.
#[cfg(feature = "otlp")]
pub fn start(format: Format, filter: &str, collector: Option<&Collector>) -> Result<Telemetry> {
    let traces = collector.map(otlp::start).transpose()?;
    let more = traces.iter().map(otlp::Traces::layer).collect();
    Ok(Telemetry { level: logs::start_with(format, filter, more)?, traces })
}

/// Starts logging like [`logs::start`].
///
/// # Errors
/// Returns an error if the filter is invalid, logging has already started, or a collector is set
/// although traces are not built in.
#[cfg(not(feature = "otlp"))]
pub fn start(format: Format, filter: &str, collector: Option<&Collector>) -> Result<Telemetry> {
    anyhow::ensure!(collector.is_none(), "traces are not built in; build with the feature otlp");
    Ok(Telemetry { level: logs::start(format, filter)? })
}

impl Telemetry {
    /// Sends the remaining spans. Returns after a few seconds even if the collector does not
    /// answer.
    #[cfg_attr(not(feature = "otlp"), expect(clippy::unused_async, reason = "there is nothing to wait for"))]
    pub async fn end(self) {
        #[cfg(feature = "otlp")]
        if let Some(traces) = self.traces {
            traces.end().await;
        }
    }
}
