//! Accept loop of the HTTP servers of a process, with limits for their clients.
//!
//! Every Pod in the cluster network can connect. Every connection therefore has a deadline at all
//! times, and the number of connections is limited. A full server closes the connection with the lowest
//! priority: those without a request first, then idle ones, then the busy one with the oldest request.

mod activity;
mod connections;
#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use activity::{Activity, TrackedBody};
use anyhow::{Context, Result};
use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Response, StatusCode, Version, header},
    response::IntoResponse,
};
use connections::{Connection, Connections};
pub use connections::{ConnectionHandle, UpgradedConnection};
use futures::future::BoxFuture;
use hyper::{body::Incoming, rt, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use rustls::{ServerConfig, pki_types::CertificateDer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;
use tracing::{debug, warn};

/// Time for a client to close a connection that was idle for too long.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Time after `stop` during which connections are accepted, and idle HTTP/1.1 connections stay open.
/// A request that its client sends in the moment in which the server closes the connection would
/// fail. The API server sends its reviews over HTTP/1.1, and does not repeat them.
const LINGER: Duration = Duration::from_secs(1);
/// Interval of HTTP/2 pings.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Timeout of an HTTP/2 ping.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of request bodies that one HTTP/2 connection buffers before the handler reads them.
const WINDOW: u32 = 64 * 1024;
/// Bytes of a response that are buffered for a client that does not read it.
const SEND_BUFFER: usize = 64 * 1024;
/// Maximum streams that an HTTP/2 client can reset before the server accepts them.
const MAX_RESET_STREAMS: usize = 20;
/// Maximum streams of one HTTP/2 connection that can fail because of protocol errors of the client.
const MAX_ERROR_STREAMS: usize = 100;
/// Wait after a failed accept, for example because no file descriptor is left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Returns the TLS configuration for each new connection. `None` means plain HTTP.
pub type Tls = Option<Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>>;

/// Handles the requests of a server. Each request has the extensions [`Peer`], [`ConnectionHandle`], and
/// [`ClientCertificate`].
pub type Handler = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// Limits of one server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum open connections.
    pub connections: usize,
    /// Maximum concurrent requests of all connections. More get 503.
    pub requests: usize,
    /// Maximum concurrent requests of one HTTP/2 connection. Clients such as Go's assume 100 before they
    /// receive the settings.
    pub streams: u32,
    /// Maximum bytes of the headers of a request. More get 431.
    pub header_bytes: u32,
    /// Timeout of one request, from its headers to the last byte of its response. `None` for a server
    /// whose responses can be endless.
    pub request_timeout: Option<Duration>,
    /// Time to finish requests in progress after `stop`.
    pub grace_period: Duration,
}

impl Limits {
    /// Limits of a server with short requests. Bearer tokens can have 16 KiB.
    pub const fn short(connections: usize) -> Self {
        Self {
            connections,
            requests: 1024,
            streams: 100,
            header_bytes: 24 * 1024,
            request_timeout: Some(Duration::from_secs(30)),
            grace_period: Duration::from_secs(2),
        }
    }
}

/// Extension of every request: the address of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Extension of every request: the certificate that the client has presented, which an authority of the
/// server signed. It was valid when the connection began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate(pub Option<Arc<CertificateDer<'static>>>);

/// Listens on an address.
///
/// # Errors
/// Returns an error if the address is in use or is not an address of this machine.
pub async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr().context("cannot read the address of the listener")?;
    Ok((listener, address))
}

/// Serves HTTP/1.1 and HTTP/2 until `stop`, then finishes the requests in progress, and asks clients
/// to close their connections.
///
/// A connection that was upgraded is no longer the server's: its handler keeps it with
/// [`ConnectionHandle::hold`], and ends it.
pub fn spawn(
    listener: TcpListener,
    tls: Tls,
    handler: Handler,
    limits: Limits,
    stop: CancellationToken,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let connections = Connections::new(limits.connections, limits.request_timeout);
        let requests = Arc::new(Semaphore::new(limits.requests));
        let (builder, grace_period) = (builder(&limits), limits.grace_period);
        let server = Arc::new(Server { tls, handler, builder, requests, grace_period, stop });
        let tasks = TaskTracker::new();
        let mut lingered = pin!(server.lingered());
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut lingered => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    let connection = Arc::new(connections.add());
                    tasks.spawn(server.clone().serve(stream, Peer(address), connection));
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
        drop(listener);
        tasks.close();
        tasks.wait().await;
    })
}

/// Returns the handler that answers with a router.
pub(crate) fn router_handler(router: Router) -> Handler {
    Arc::new(move |request| {
        let router = router.clone();
        Box::pin(async move {
            match router.oneshot(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        })
    })
}

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // It would also close idle connections. They have a deadline of their own.
        .header_read_timeout(None)
        .max_buf_size(usize::try_from(limits.header_bytes).unwrap_or(usize::MAX));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .max_concurrent_streams(limits.streams)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(limits.header_bytes)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(MAX_ERROR_STREAMS);
    builder
}

/// State that all connections of a server share.
struct Server {
    tls: Tls,
    handler: Handler,
    builder: Builder<TokioExecutor>,
    requests: Arc<Semaphore>,
    grace_period: Duration,
    stop: CancellationToken,
}

/// Asks the client of an HTTP/1.1 connection to close it after this response. HTTP/2 has its own
/// message for this, and does not allow the header.
pub(crate) fn ask_to_close(version: Version, response: &mut Response<Body>) {
    if version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

impl Server {
    /// Waits until the end of the time in which a stopped server accepts connections.
    async fn lingered(&self) {
        self.stop.cancelled().await;
        sleep(LINGER).await;
    }

    /// Serves one connection until either side closes it or its deadline passes.
    async fn serve(self: Arc<Self>, stream: TcpStream, peer: Peer, connection: Arc<Connection>) {
        // Responses are small, so batching packets would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "cannot disable delayed packets of a connection");
        }
        let Some(tls) = &self.tls else {
            return self.drive(stream, (peer, ClientCertificate(None)), &connection).await;
        };
        let handshake = TlsAcceptor::from(tls()).accept(stream);
        let stream = tokio::select! {
            stream = handshake => stream,
            () = connection.closed() => return,
            () = sleep_until(connection.activity().deadline()) => return,
            () = self.lingered() => return,
        };
        match stream {
            Ok(stream) => {
                let (_, session) = stream.get_ref();
                let certificate = session.peer_certificates().and_then(|chain| chain.first());
                let certificate = certificate.map(|certificate| Arc::new(certificate.clone().into_owned()));
                self.drive(stream, (peer, ClientCertificate(certificate)), &connection).await;
            }
            Err(error) => debug!(%error, "TLS handshake failed"),
        }
    }

    async fn drive<I>(&self, stream: I, client: (Peer, ClientCertificate), connection: &Arc<Connection>)
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        TokioIo<I>: rt::Read + rt::Write,
    {
        let activity = connection.activity();
        activity.complete_handshake();
        let service =
            service_fn(|request: Request<Incoming>| self.handle(request, client.clone(), connection));
        let mut protocol = pin!(self.builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let mut closed = pin!(connection.closed());
        let mut stop = pin!(self.stop.cancelled());
        let mut deadline = pin!(sleep_until(activity.deadline()));
        let (mut stopping, mut grace_end): (Option<Instant>, Option<Instant>) = (None, None);
        poll_fn(|context| {
            // Errors of a client are not logged.
            if protocol.as_mut().poll(context).is_ready() || closed.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            if stopping.is_none() && stop.as_mut().poll(context).is_ready() {
                let linger = if activity.is_http2() { Duration::ZERO } else { LINGER };
                stopping = Some(Instant::now() + linger);
            }
            loop {
                // A request that starts or ends changes the deadline.
                let next = grace_end.or(stopping).unwrap_or_else(|| activity.deadline());
                if deadline.deadline() != next {
                    deadline.as_mut().reset(next);
                }
                if deadline.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                if grace_end.is_some() || (stopping.is_none() && !activity.is_idle()) {
                    return Poll::Ready(());
                }
                if stopping.is_some() || activity.deadline() <= Instant::now() {
                    let grace = if stopping.is_some() { self.grace_period } else { GRACE_PERIOD };
                    grace_end = Some(Instant::now() + grace);
                    protocol.as_mut().graceful_shutdown();
                    context.waker().wake_by_ref();
                }
            }
        })
        .await;
    }

    fn handle(
        &self,
        mut request: Request<Incoming>,
        (peer, certificate): (Peer, ClientCertificate),
        connection: &Arc<Connection>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<> {
        let permit = self.requests.clone().try_acquire_owned().ok();
        let mut in_flight = Activity::start_request(connection.activity(), permit);
        let (version, stop, handler) = (request.version(), self.stop.clone(), self.handler.clone());
        connection.activity().set_version(version);
        let extensions = request.extensions_mut();
        extensions.insert(peer);
        extensions.insert(certificate);
        extensions.insert(ConnectionHandle::new(connection.clone()));
        async move {
            let mut response = if in_flight.has_permit() {
                handler(request).await
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "too many requests in progress; retry\n").into_response()
            };
            in_flight.mark_answered();
            if stop.is_cancelled() {
                ask_to_close(version, &mut response);
            }
            Ok(response.map(|body| Body::new(TrackedBody::new(body, in_flight))))
        }
    }
}
