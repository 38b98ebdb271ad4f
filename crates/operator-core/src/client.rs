//! The one connection pool of a process, and the clients over it.

use std::sync::Arc;

use http::{HeaderValue, Request, header::USER_AGENT};
use kube::{Client, client::Body};
use tokio::sync::Semaphore;
use tower::service_fn;

/// The most requests that a process has in flight at once, watches not counted. More than this makes an API
/// server slower, not faster: its watchers fall behind.
pub const MAX_IN_FLIGHT: usize = 32;

/// Makes clients that share one connection pool and one limit of requests in flight, each with a `User-Agent`
/// of its own so that an audit log tells who did what.
#[derive(Clone)]
pub struct Clients {
    inner: Client,
    limit: Arc<Semaphore>,
}

impl Clients {
    /// Clients over the pool of `client`.
    pub fn new(client: Client) -> Self {
        Self { inner: client, limit: Arc::new(Semaphore::new(MAX_IN_FLIGHT)) }
    }

    /// A client that calls itself `ensemble/<version> (<name>)`.
    pub fn named(&self, name: &str) -> Client {
        let agent = format!("ensemble/{} ({name})", env!("CARGO_PKG_VERSION"));
        let agent = HeaderValue::from_str(&agent).unwrap_or_else(|_| HeaderValue::from_static("ensemble"));
        let (inner, limit) = (self.inner.clone(), self.limit.clone());
        let service = service_fn(move |mut request: Request<Body>| {
            let (inner, limit) = (inner.clone(), limit.clone());
            request.headers_mut().insert(USER_AGENT, agent.clone());
            async move {
                let _permit = if is_watch(&request) { None } else { limit.acquire_owned().await.ok() };
                inner.send(request).await
            }
        });
        Client::new(service, self.inner.default_namespace())
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    request
        .uri()
        .query()
        .is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")))
}
