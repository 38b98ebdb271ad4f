//! Accept loop of the HTTP servers of a process, with bounds on what their clients can hold.
//!
//! Anybody in the cluster's network can connect, so every connection has a deadline at all times
//! (see [`activity`]), their number is bounded, and a full server closes the connection that is
//! needed least (see [`connections`]).

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

use activity::{Activity, Tracked};
use anyhow::{Context, Result};
use axum::{
    Router,
    body::Body,
    http::{Request, Response, StatusCode},
    response::IntoResponse,
};
use connections::{Connections, Place};
use hyper::{body::Incoming, rt, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use rustls::ServerConfig;
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

/// How long requests that are under way may still take when a server is asked to stop, and how
/// long a client has to leave a connection that was idle for too long.
const GRACE: Duration = Duration::from_secs(2);
/// How long a client of HTTP/1.1 may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// How often a client of HTTP/2 is asked whether it is still there, and how long it may take to say so.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many requests one HTTP/2 connection may have under way. Clients, Go's among them, assume 100 until they are told.
const STREAMS: u32 = 100;
/// How many requests all connections of one server may have under way together.
const REQUESTS: usize = 1024;
/// How much of the bodies of one HTTP/2 connection is taken in before it is read.
const WINDOW: u32 = 64 * 1024;
/// How much of a response is kept for a client that does not read it.
const SEND_BUFFER: usize = 64 * 1024;
/// The largest head of a request. Bearer tokens may have 16 KiB.
const LARGEST_HEAD: u32 = 24 * 1024;
/// Streams that a client of HTTP/2 may reset before they are accepted.
const RESETS: usize = 20;
/// Streams of one HTTP/2 connection that may end by errors of the client.
const ERRORS: usize = 100;
/// How long no connection is accepted after an attempt failed: the process has no file descriptor left, say.
const PAUSE: Duration = Duration::from_millis(50);

/// The TLS configuration of each new connection; `None` for plain HTTP.
pub(crate) type Tls = Option<Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>>;

/// Whether the client of a connection has shown a certificate of the authority that was asked for.
/// An extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HasClientCertificate(pub(crate) bool);

/// Listens on an address.
///
/// # Errors
/// Returns an error if the address is in use or is not an address of this machine.
pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr().context("cannot tell the address that is listened on")?;
    Ok((listener, address))
}

/// Serves HTTP/1.1 and HTTP/2 until `stop`, then lets requests that are under way end. Keeps at
/// most `limit` connections open.
pub(crate) fn spawn(
    listener: TcpListener,
    tls: Tls,
    router: Router,
    limit: usize,
    stop: CancellationToken,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let connections = Connections::new(limit);
        let server = Arc::new(Server { tls, router, builder: builder(), requests: requests(), stop });
        let tasks = TaskTracker::new();
        while let Some(accepted) = server.stop.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, _)) => {
                    let place = connections.admit();
                    tasks.spawn(server.clone().serve(stream, place));
                }
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
            }
        }
        drop(listener);
        tasks.close();
        tasks.wait().await;
    })
}

fn requests() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(REQUESTS))
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(usize::try_from(LARGEST_HEAD).unwrap_or(usize::MAX));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(LARGEST_HEAD)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(ERRORS);
    builder
}

/// What all connections of a server share.
struct Server {
    tls: Tls,
    router: Router,
    builder: Builder<TokioExecutor>,
    requests: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Server {
    /// Serves one connection until either side closes it, or it is overdue.
    async fn serve(self: Arc<Self>, stream: TcpStream, place: Place) {
        // Reviews are small and are waited for.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "a connection keeps small packets back");
        }
        let Some(tls) = &self.tls else {
            return self.drive(stream, HasClientCertificate(false), &place).await;
        };
        let handshake = TlsAcceptor::from(tls()).accept(stream);
        let stream = tokio::select! {
            stream = handshake => stream,
            () = place.closed() => return,
            () = sleep_until(place.activity().deadline()) => return,
            () = self.stop.cancelled() => return,
        };
        match stream {
            Ok(stream) => {
                let (_, session) = stream.get_ref();
                let is_known = session.peer_certificates().is_some_and(|chain| !chain.is_empty());
                self.drive(stream, HasClientCertificate(is_known), &place).await;
            }
            Err(error) => debug!(%error, "a TLS handshake failed"),
        }
    }

    async fn drive<I>(&self, stream: I, client: HasClientCertificate, place: &Place)
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
        TokioIo<I>: rt::Read + rt::Write,
    {
        let activity = place.activity();
        let service = service_fn(|request: Request<Incoming>| self.answer(request, client, activity));
        let mut connection = pin!(self.builder.serve_connection(TokioIo::new(stream), service));
        let mut closed = pin!(place.closed());
        let mut stop = pin!(self.stop.cancelled());
        let mut deadline = pin!(sleep_until(activity.deadline()));
        let mut ends: Option<Instant> = None;
        poll_fn(|context| {
            // A closed connection is no news: clients leave, and what they did wrong is theirs.
            if connection.as_mut().poll(context).is_ready() || closed.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            if ends.is_none() && stop.as_mut().poll(context).is_ready() {
                ends = Some(Instant::now() + GRACE);
                connection.as_mut().graceful_shutdown();
                context.waker().wake_by_ref();
            }
            loop {
                // A request that began or ended moves the deadline.
                let next = ends.unwrap_or_else(|| activity.deadline());
                if deadline.deadline() != next {
                    deadline.as_mut().reset(next);
                }
                if deadline.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                if ends.is_some() || !activity.is_idle() {
                    return Poll::Ready(());
                }
                if activity.deadline() <= Instant::now() {
                    ends = Some(Instant::now() + GRACE);
                    connection.as_mut().graceful_shutdown();
                    context.waker().wake_by_ref();
                }
            }
        })
        .await;
    }

    fn answer(
        &self,
        request: Request<Incoming>,
        client: HasClientCertificate,
        activity: &Arc<Activity>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<> {
        let slot = self.requests.clone().try_acquire_owned().ok();
        let (router, mut under_way) = (self.router.clone(), Activity::begin(activity, slot));
        async move {
            let response = if under_way.has_slot() {
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(client);
                router.oneshot(request).await?
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "too many requests are under way; try again\n")
                    .into_response()
            };
            under_way.answered();
            Ok(response.map(|body| Body::new(Tracked::new(body, under_way))))
        }
    }
}
