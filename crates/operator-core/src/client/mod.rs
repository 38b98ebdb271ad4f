//! The one connection pool of a process, and the clients over it.

mod asked;

use std::{sync::Arc, time::Instant};

pub use asked::Asked;
use http::{HeaderValue, Request, header::USER_AGENT};
use kube::{Client, client::Body};
use tokio::sync::Semaphore;
use tower::service_fn;
use tracing::Instrument;

use crate::{
    fence::Fence,
    metrics::{Metrics, NoMetrics},
};

/// The most requests that a process has in flight at once, watches not counted. More than this makes an API
/// server slower, not faster: its watchers fall behind.
pub const MAX_IN_FLIGHT: usize = 32;

/// Makes clients that share one connection pool and one limit of requests in flight, each with a `User-Agent`
/// of its own so that an audit log tells who did what.
#[derive(Clone)]
pub struct Clients {
    inner: Client,
    limit: Arc<Semaphore>,
    metrics: Arc<dyn Metrics>,
}

impl Clients {
    /// Clients over the pool of `client`.
    pub fn new(client: Client) -> Self {
        Self::measured(client, Arc::new(NoMetrics))
    }

    /// Clients over the pool of `client` that tell of every request.
    pub fn measured(client: Client, metrics: Arc<dyn Metrics>) -> Self {
        Self { inner: client, limit: Arc::new(Semaphore::new(MAX_IN_FLIGHT)), metrics }
    }

    /// A client that calls itself `ensemble/<version> (<name>)`.
    pub fn named(&self, name: &str) -> Client {
        self.fenced(name, Fence::open())
    }

    /// A client that calls itself `ensemble/<version> (<name>)` and sends writes only while the fence is open. The fence
    /// goes with each write as an extension of the request, for a pool that sends requests again by itself.
    pub fn fenced(&self, name: &str, fence: Fence) -> Client {
        let agent = format!("ensemble/{} ({name})", env!("CARGO_PKG_VERSION"));
        let agent = HeaderValue::from_str(&agent).unwrap_or_else(|_| HeaderValue::from_static("ensemble"));
        let (clients, namespace) = (self.clone(), self.inner.default_namespace().to_owned());
        let service = service_fn(move |mut request: Request<Body>| {
            let (Self { inner, limit, metrics }, fence) = (clients.clone(), fence.clone());
            request.headers_mut().insert(USER_AGENT, agent.clone());
            let asked = Asked::of(&request);
            let span = asked.span();
            let told = span.clone();
            let send = async move {
                let _permit = if asked.is_watch() { None } else { limit.acquire_owned().await.ok() };
                if asked.is_write() {
                    fence.check()?;
                    // For whoever sends it again.
                    request.extensions_mut().insert(fence);
                }
                let began = Instant::now();
                let answer = inner.send(request).await;
                let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
                metrics.requested(&asked, code, began.elapsed());
                told.record("code", code);
                Ok::<_, tower::BoxError>(answer?)
            };
            send.instrument(span)
        });
        Client::new(service, namespace)
    }
}
