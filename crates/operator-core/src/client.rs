//! Clients that share one connection pool, with limits on requests in flight.

use std::{collections::HashMap, sync::Arc, time::Instant};

use http::{HeaderValue, Request, header::USER_AGENT};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tower::service_fn;
use tracing::Instrument;

pub use crate::request_info::RequestInfo;
use crate::{
    fence::Fence,
    metrics::{Metrics, NoMetrics},
};

/// Maximum number of requests of controllers in flight, without watches. More requests slow down
/// the API server, and its watches fall behind.
pub const MAX_IN_FLIGHT: usize = 32;
/// Maximum number of requests of admission reviews in flight, over all webhooks of the process.
///
/// These requests must not wait for requests of controllers: the API server may wait for a review
/// by this process before it responds to them.
pub const MAX_IN_FLIGHT_REVIEWS: usize = 16;
/// Maximum number of lists of informers in flight. Reviews wait until informers have synced, so
/// lists must not wait for requests of controllers either.
pub const MAX_IN_FLIGHT_LISTS: usize = 8;

/// Creates clients that share a connection pool and a limit on requests in flight.
///
/// Each client has its own `User-Agent`, so the audit log shows which controller sent a request.
/// [`with_own_limit`](Clients::with_own_limit) returns clients with a separate limit.
#[derive(Clone)]
pub struct Clients {
    inner: Client,
    limit: Arc<Semaphore>,
    metrics: Arc<dyn Metrics>,
    /// Clients of webhooks, by name and by whether they may write.
    of_webhooks: Arc<Mutex<HashMap<(String, bool), Client>>>,
}

impl Clients {
    /// Returns clients with the connection pool of `client`.
    pub fn new(client: Client) -> Self {
        Self::with_metrics(client, Arc::new(NoMetrics))
    }

    /// Returns clients with the connection pool of `client` that report every request to `metrics`.
    pub fn with_metrics(client: Client, metrics: Arc<dyn Metrics>) -> Self {
        let limit = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
        Self { inner: client, limit, metrics, of_webhooks: Arc::default() }
    }

    /// Returns clients with the same connection pool and a separate limit. Requests of the other
    /// clients do not delay theirs.
    #[must_use]
    pub fn with_own_limit(&self, max_in_flight: usize) -> Self {
        let limit = Arc::new(Semaphore::new(max_in_flight));
        Self { limit, of_webhooks: Arc::default(), ..self.clone() }
    }

    /// Returns clients with the connections of `client`, and a limit of their own.
    pub(crate) fn with_connections(&self, client: Client) -> Self {
        Self { inner: client, ..self.with_own_limit(MAX_IN_FLIGHT) }
    }

    /// Returns a client with the `User-Agent` `ensemble/<version> (<name>)`.
    pub fn named(&self, name: &str) -> Client {
        self.fenced(name, Fence::open())
    }

    /// Returns a client like [`Clients::named`], or one that cannot write. It is the same one each time, because the
    /// queue of a client takes 10 KiB, and there is a webhook for each of many kinds.
    pub(crate) fn of_webhooks(&self, name: String, may_write: bool) -> Client {
        let mut clients = self.of_webhooks.lock();
        let client = clients.entry((name, may_write)).or_insert_with_key(|(name, _)| {
            self.fenced(name, if may_write { Fence::open() } else { Fence::closed() })
        });
        client.clone()
    }

    /// Returns a client like [`Clients::named`] that sends writes only while the fence is open.
    ///
    /// Each write carries the fence as an extension of the request, so that a retry layer below can
    /// check it again.
    pub fn fenced(&self, name: &str, fence: Fence) -> Client {
        let agent = format!("ensemble/{} ({name})", env!("CARGO_PKG_VERSION"));
        let agent = HeaderValue::from_str(&agent).unwrap_or_else(|_| HeaderValue::from_static("ensemble"));
        let namespace = self.inner.default_namespace().to_owned();
        let parts = (self.inner.clone(), self.limit.clone(), self.metrics.clone(), fence);
        let service = service_fn(move |mut request: Request<Body>| {
            let (inner, limit, metrics, fence) = parts.clone();
            request.headers_mut().insert(USER_AGENT, agent.clone());
            let info = RequestInfo::of(&request);
            let span = info.span();
            let request_span = span.clone();
            let send = async move {
                let _permit = if info.is_watch() { None } else { limit.acquire_owned().await.ok() };
                if info.is_write() {
                    fence.check()?;
                    // For the retry layer of `inner`.
                    request.extensions_mut().insert(fence);
                }
                let start = Instant::now();
                let response = inner.send(request).await;
                let code = response.as_ref().ok().map(|response| response.status().as_u16());
                metrics.requested(&info, code, start.elapsed());
                request_span.record("code", code);
                Ok::<_, tower::BoxError>(response?)
            };
            send.instrument(span)
        });
        Client::new(service, namespace)
    }
}
