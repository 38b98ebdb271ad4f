//! HTTP/2 connections to the API server.
//!
//! The API server allows 100 requests at once on a connection. A client with one connection would let the
//! 101st request wait for the end of a watch, so the pool opens as many connections as are needed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::debug;

use super::{
    UpstreamError,
    endpoint::{Endpoint, Protocol},
};

/// Most requests at once on one connection. The API server allows 100.
const MAX_STREAMS: usize = 80;
/// Bytes of a response that are buffered for a client that does not read it.
const WINDOW: u32 = 64 * 1024;
/// Bytes of all responses of a connection: clients that do not read theirs must not stop those of others.
const CONNECTION_WINDOW: u32 = 80 * WINDOW;
/// Time after which a connection without requests is closed.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Interval and timeout of the pings that find broken connections.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// Connections to the API server.
pub struct Pool {
    endpoint: Endpoint,
    connections: Mutex<Vec<Arc<Connection>>>,
    /// Held while a connection is opened, so that waiting requests share it.
    opening: tokio::sync::Mutex<()>,
}

struct Connection {
    sender: http2::SendRequest<Body>,
    /// Requests whose response has not ended.
    streams: AtomicUsize,
    idle_since: Mutex<Instant>,
}

/// Permit for one request on a connection, until it is dropped.
pub(super) struct Stream(Arc<Connection>);

impl Stream {
    pub(super) fn sender(&self) -> http2::SendRequest<Body> {
        self.0.sender.clone()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = Instant::now();
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    fn is_usable(&self) -> bool {
        let is_idle = self.streams.load(Ordering::Relaxed) == 0;
        !self.sender.is_closed() && (!is_idle || self.idle_since.lock().elapsed() < IDLE_TIMEOUT)
    }
}

impl Pool {
    /// Returns a pool without connections.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, connections: Mutex::default(), opening: tokio::sync::Mutex::default() }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns a place on a connection. Opens a connection if there is none.
    pub(super) async fn stream(&self) -> Result<Stream, UpstreamError> {
        if let Some(stream) = self.free() {
            return Ok(stream);
        }
        let _opening = self.opening.lock().await;
        if let Some(stream) = self.free() {
            return Ok(stream);
        }
        let connection = self.open().await?;
        let stream = Stream(connection.clone());
        self.connections.lock().push(connection);
        Ok(stream)
    }

    /// Closes connections that were not used for a minute. Call it from time to time.
    pub fn close_idle(&self) {
        self.connections.lock().retain(|connection| connection.is_usable());
    }

    /// Returns a place on an open connection. The first connections are used first, so that the last ones
    /// become idle.
    fn free(&self) -> Option<Stream> {
        let mut connections = self.connections.lock();
        connections.retain(|connection| connection.is_usable());
        let found = connections.iter().find(|one| one.streams.load(Ordering::Relaxed) < MAX_STREAMS)?.clone();
        // The lock is held, so nobody else adds to the number.
        found.streams.fetch_add(1, Ordering::Relaxed);
        Some(Stream(found))
    }

    /// Opens a connection with one request on it.
    async fn open(&self) -> Result<Arc<Connection>, UpstreamError> {
        let stream = self.endpoint.connect(Protocol::Http2).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "a connection to the API server broke");
            }
        });
        let idle_since = Mutex::new(Instant::now());
        Ok(Arc::new(Connection { sender, streams: AtomicUsize::new(1), idle_since }))
    }
}
