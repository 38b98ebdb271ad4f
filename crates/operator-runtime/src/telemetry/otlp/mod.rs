//! OTLP traces, sent in batches over HTTP.

mod sender;

use std::{fmt, time::Duration};

use anyhow::{Context, Result, ensure};
use http::Uri;
use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use sender::Sender;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer, Registry, filter::Targets};

use super::Collector;

/// Timeout of a batch.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of the last batch when the process exits.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// Targets whose spans are sent: those of the work, not those of libraries.
const TARGETS: [&str; 2] = ["operator_core", "operator_runtime"];

/// Running traces.
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

/// Starts tracing to a collector.
///
/// # Errors
/// Returns an error if the collector's address is invalid.
pub(super) fn start(collector: &Collector) -> Result<Traces> {
    let endpoint = traces_endpoint(&collector.endpoint)?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Sender::new(&collector.endpoint, TIMEOUT)?)
        .with_endpoint(endpoint)
        .with_timeout(TIMEOUT)
        .build()
        .context("cannot prepare to send traces")?;
    let resource = Resource::builder()
        .with_service_name("ensemble-manager")
        .with_attribute(KeyValue::new("service.version", collector.version))
        .with_attribute(KeyValue::new("service.instance.id", collector.instance.clone()))
        .build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    Ok(Traces { provider })
}

/// Returns the URL to which traces are sent.
fn traces_endpoint(base: &str) -> Result<String> {
    let is_address = base
        .parse::<Uri>()
        .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    ensure!(is_address, "`{base}` is no address of a collector; use one such as http://collector:4318");
    Ok(format!("{}/v1/traces", base.trim_end_matches('/')))
}

impl Traces {
    /// Returns the layer that records spans.
    pub(super) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let spans = TARGETS.map(|target| (target, LevelFilter::DEBUG));
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("ensemble"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_targets(spans))
            .boxed()
    }

    /// Sends the remaining spans.
    pub(super) async fn end(self) {
        // The exporter's thread needs this thread's runtime, so wait on another thread.
        let ended =
            tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
        // An unreachable collector has been logged already.
        let _ = ended.await;
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Traces")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_collector_address() {
        assert_eq!(traces_endpoint("http://collector:4318").unwrap(), "http://collector:4318/v1/traces");
        assert_eq!(traces_endpoint("https://collector/otlp/").unwrap(), "https://collector/otlp/v1/traces");
        for invalid in ["", "collector:4318", "http://", "unix:///socket", "a b"] {
            let error = traces_endpoint(invalid).unwrap_err().to_string();
            assert!(error.contains("such as http://collector:4318"), "{invalid}: {error}");
        }
    }
}
