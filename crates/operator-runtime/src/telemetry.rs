//! What the process says about its work: logs, and traces where they are built in and wanted.

#[cfg(feature = "otlp")]
mod otlp;

use anyhow::Result;

use crate::logs::{self, Format, Level};

/// Where traces go.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Its base address, such as `http://collector:4318`.
    pub endpoint: String,
    /// The version of this process, as the collector is told.
    pub version: &'static str,
    /// Which of several replicas this is.
    pub instance: String,
}

/// Logs and traces under way.
#[derive(Debug)]
pub struct Telemetry {
    /// Changes which log lines there are.
    pub level: Level,
    #[cfg(feature = "otlp")]
    traces: Option<otlp::Traces>,
}

/// Starts logging as [`logs::start`] does, and tracing if there is a collector.
///
/// # Errors
/// When the filter does not parse, the process logs already, or the collector's address is none. A collector that
/// cannot be reached is no error: it is told, and the work goes on.
#[cfg(feature = "otlp")]
pub fn start(format: Format, filter: &str, collector: Option<&Collector>) -> Result<Telemetry> {
    let traces = collector.map(otlp::start).transpose()?;
    let more = traces.iter().map(otlp::Traces::layer).collect();
    Ok(Telemetry { level: logs::start_with(format, filter, more)?, traces })
}

/// Starts logging as [`logs::start`] does.
///
/// # Errors
/// When the filter does not parse, the process logs already, or there is a collector: traces are not built in.
#[cfg(not(feature = "otlp"))]
pub fn start(format: Format, filter: &str, collector: Option<&Collector>) -> Result<Telemetry> {
    anyhow::ensure!(collector.is_none(), "traces are not built in; build with the feature otlp");
    Ok(Telemetry { level: logs::start(format, filter)? })
}

impl Telemetry {
    /// Sends what has not been sent yet. Takes no longer than a few seconds, whether the collector answers or not.
    #[cfg_attr(not(feature = "otlp"), expect(clippy::unused_async, reason = "there is nothing to wait for"))]
    pub async fn end(self) {
        #[cfg(feature = "otlp")]
        if let Some(traces) = self.traces {
            traces.end().await;
        }
    }
}
