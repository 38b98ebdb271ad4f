//! The one connection pool of a process, and the clients over it.

mod request_info;

use std::{sync::Arc, time::Instant};

use http::{HeaderValue, Request, header::USER_AGENT};
use kube::{Client, client::Body};
pub use request_info::RequestInfo;
use tokio::sync::Semaphore;
use tower::service_fn;
use tracing::Instrument;

use crate::{
    fence::Fence,
    metrics::{Metrics, NoMetrics},
};

/// The most requests that the controllers of a process have in flight at once, watches not counted. More than this makes
/// an API server slower, not faster: its watchers fall behind.
pub const MAX_IN_FLIGHT: usize = 32;
/// The most requests that admission reviews have in flight at once, in all webhooks of the process.
///
/// They must not wait for requests of controllers. The API server may be asking this process for a review before it
/// answers any of those.
pub const MAX_IN_FLIGHT_REVIEWS: usize = 16;
/// The most lists that informers have in flight at once. Reviews wait until informers have synced, so lists must not
/// wait for requests of controllers either.
pub const MAX_IN_FLIGHT_LISTS: usize = 8;

/// Makes clients that share one connection pool and one limit of requests in flight (but see
/// [`with_own_limit`](Clients::with_own_limit)), each with a `User-Agent`
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

    /// Returns clients over the same pool whose requests have a limit of their own. Requests of the other clients never
    /// hold them up.
    #[must_use]
    pub fn with_own_limit(&self, max_in_flight: usize) -> Self {
        Self { limit: Arc::new(Semaphore::new(max_in_flight)), ..self.clone() }
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
            let asked = RequestInfo::of(&request);
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
