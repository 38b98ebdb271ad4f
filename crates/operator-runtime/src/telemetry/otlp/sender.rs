//! HTTP client that sends batches of spans.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use async_trait::async_trait;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use operator_core::error::chain;
use tokio::runtime::Handle;
use tracing::{info, warn};

/// Sends batches on the runtime of the process, because the thread of the exporter has none. Logs
/// an outage of the collector once when it begins and once when it ends.
pub(super) struct Sender {
    client: HyperClient<HttpsConnector<HttpConnector>>,
    runtime: Handle,
    /// For the log.
    endpoint: String,
    failing: AtomicBool,
}

impl Sender {
    pub(super) fn new(endpoint: &str, timeout: Duration) -> Result<Self> {
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .context("cannot load the system certificate authorities, which verify the collector")?;
        let connector = tls.https_or_http().enable_http1().build();
        Ok(Self {
            client: HyperClient::new(connector, timeout, None),
            runtime: Handle::try_current().context("traces need a runtime")?,
            endpoint: endpoint.to_owned(),
            failing: AtomicBool::new(false),
        })
    }

    fn report(&self, error: Option<&str>) {
        let failed = self.failing.swap(error.is_some(), Ordering::Relaxed);
        let endpoint = &self.endpoint;
        match error {
            Some(error) if !failed => {
                warn!(endpoint, error, "cannot send traces to the collector; continuing without them");
            }
            None if failed => info!(endpoint, "recovered: can send traces to the collector again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let response = self.runtime.spawn(async move { client.send_bytes(request).await }).await?;
        match &response {
            Ok(response) if response.status().is_success() => self.report(None),
            Ok(response) => self.report(Some(&format!("it responded with {}", response.status()))),
            Err(error) => self.report(Some(&chain(error.as_ref()))),
        }
        response
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
