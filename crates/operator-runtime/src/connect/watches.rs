//! Watches share a connection to the API server.
//!
//! With HTTP/1.1 each watch has a connection, with a TLS session and buffers, which is idle most of the time. With
//! HTTP/2 they share one, as those of client-go do. Other requests keep HTTP/1.1: a client of HTTP/2 would let them
//! wait for the end of a watch when the connection has all requests that the API server allows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, request};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Builder, Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt as _},
};
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tower::{BoxError, ServiceBuilder};

/// Most watches on the connection. The API server allows 100 requests at once, and a further one would wait until
/// another ends.
const MAX_WATCHES: usize = 80;
/// Time until a response begins. Without one, the API server may allow fewer requests than [`MAX_WATCHES`]: the HTTP
/// client then waits for the end of another.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a watch that are buffered until it is read.
const WINDOW: u32 = 256 * 1024;
/// Bytes of [`MAX_WATCHES`], so that one that is not read does not stop others.
const CONNECTION_WINDOW: u32 = 80 * WINDOW;
/// Interval and timeout of the pings that find a broken connection. client-go has 30 and 15 s.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));

/// A client for watches. Where the API server does not support HTTP/2, each has a connection.
pub(super) struct Watches {
    client: Client,
    permits: Arc<Semaphore>,
    open: Arc<AtomicUsize>,
    /// Held while no watch is open and one is sent, so that others find its connection.
    first: Mutex<()>,
}

/// An open watch, which counts for [`MAX_WATCHES`] until it is dropped.
pub(super) struct Watch {
    open: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Watch {
    fn new(open: &Arc<AtomicUsize>, permit: OwnedSemaphorePermit) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self { open: open.clone(), _permit: permit }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watches {
    /// Returns a client without connections, or `None` if the API server is reached through a proxy, for which
    /// kube has the connectors.
    ///
    /// # Errors
    /// Returns an error if the certificates or the credentials are invalid.
    pub(super) fn new(config: &Config) -> kube::Result<Option<Self>> {
        if config.proxy_url.is_some() {
            return Ok(None);
        }
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(http_client(config)?);
        let client = ClientBuilder::new(service, config.default_namespace.clone()).build();
        Ok(Some(Self::with(client)))
    }

    fn with(client: Client) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_WATCHES));
        Self { client, permits, open: Arc::default(), first: Mutex::default() }
    }

    /// Sends a watch. Returns its response, and what to keep until the response ends. Returns `None` if the
    /// connection is full, or if no response begins within 20 s.
    ///
    /// # Errors
    /// Returns the errors of [`Client::send`].
    pub(super) async fn send(&self, head: request::Parts) -> kube::Result<Option<(Response<Body>, Watch)>> {
        let Ok(permit) = self.permits.clone().try_acquire_owned() else { return Ok(None) };
        let sent = timeout(RESPONSE_TIMEOUT, self.open(head, permit)).await;
        sent.map_or(Ok(None), |opened| opened.map(Some))
    }

    async fn open(
        &self,
        head: request::Parts,
        permit: OwnedSemaphorePermit,
    ) -> kube::Result<(Response<Body>, Watch)> {
        let is_open = || self.open.load(Ordering::Relaxed) > 0;
        let first = if is_open() { None } else { Some(self.first.lock().await) };
        let _first = first.filter(|_| !is_open());
        let response = self.client.send(Request::from_parts(head, Body::empty())).await?;
        Ok((response, Watch::new(&self.open, permit)))
    }
}

fn http_client(
    config: &Config,
) -> kube::Result<HttpClient<hyper_rustls::HttpsConnector<HttpConnector>, Body>> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    let mut builder =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    // kube's own client reports a name that is invalid.
    if let Some(name) = config.tls_server_name.clone().and_then(|name| name.try_into().ok()) {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = builder.enable_http1().enable_http2().wrap_connector(connector);
    Ok(Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        // A connection with watches counts as idle, too, after a while without a new one.
        .pool_idle_timeout(None)
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING.0)
        .http2_keep_alive_timeout(PING.1)
        .http2_keep_alive_while_idle(true)
        .build(connector))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;
    use tower::service_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watch_without_response_is_returned() {
        let silent = |_: Request<Body>| pending::<Result<Response<Body>, BoxError>>();
        let watches = Watches::with(Client::new(service_fn(silent), "default"));
        let began = Instant::now();
        for sent in 1..3 {
            let (head, ()) = Request::new(()).into_parts();
            assert!(watches.send(head).await.unwrap().is_none());
            assert_eq!(began.elapsed(), RESPONSE_TIMEOUT * sent);
            assert_eq!(watches.permits.available_permits(), MAX_WATCHES);
        }
    }
}
