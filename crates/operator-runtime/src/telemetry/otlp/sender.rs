//! Sending a batch of spans.

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

/// Sends batches on the process's own runtime: the exporter's thread has none. Tells once that the collector does not
/// take them, and once that it does again.
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
            .context("cannot read this machine's certificate authorities, to know the collector by")?;
        let connector = tls.https_or_http().enable_http1().build();
        Ok(Self {
            client: HyperClient::new(connector, timeout, None),
            runtime: Handle::try_current().context("traces need a runtime")?,
            endpoint: endpoint.to_owned(),
            failing: AtomicBool::new(false),
        })
    }

    fn tell(&self, error: Option<&str>) {
        let failed = self.failing.swap(error.is_some(), Ordering::Relaxed);
        let endpoint = &self.endpoint;
        match error {
            Some(error) if !failed => {
                warn!(endpoint, error, "traces do not reach the collector; the work goes on without them");
            }
            None if failed => info!(endpoint, "traces reach the collector again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let answer = self.runtime.spawn(async move { client.send_bytes(request).await }).await?;
        match &answer {
            Ok(answer) if answer.status().is_success() => self.tell(None),
            Ok(answer) => self.tell(Some(&format!("it answered {}", answer.status()))),
            Err(error) => self.tell(Some(&chain(error.as_ref()))),
        }
        answer
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
