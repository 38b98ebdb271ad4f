//! Connections that a user and the API server have switched to another protocol, such as those of exec,
//! attach, and port-forward.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{CONNECTION, UPGRADE},
};
use hyper::{body::Incoming, upgrade::on};
use hyper_util::rt::TokioIo;
use operator_runtime::server::UpgradedConnection;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional},
    time::{Instant, sleep},
};
use tracing::debug;

use crate::{
    request::end_to_end,
    upstream::{AsUser, UpstreamError, UserRequest},
};

/// Time without a byte after which a connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_hours(4);

/// What is left to do for a connection that switches its protocol: copies bytes in both directions until
/// both sides have ended, or until nothing was sent for four hours.
pub type Tunnel = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Sends the request of a user for another protocol. Returns the response, and what copies the bytes if the
/// API server has switched to that protocol. Any other response is an ordinary one, after which the
/// caller must close the connection.
///
/// # Errors
/// Returns an error if there is no response, or one with another protocol.
pub async fn open(
    api_server: &AsUser,
    mut request: Request<Incoming>,
    protocol: HeaderValue,
    held: UpgradedConnection,
    of_user: impl FnOnce(Request<Incoming>) -> UserRequest,
) -> Result<(Response<Body>, Option<Tunnel>), UpstreamError> {
    let client = on(&mut request);
    let mut response = api_server.upgrade(of_user(request), protocol.clone()).await?;
    let mut headers = end_to_end(response.headers());
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let mut response = response.map(Body::new);
        *response.headers_mut() = headers;
        return Ok((response, None));
    }
    let switched = response.headers().get(UPGRADE);
    if !switched.is_some_and(|switched| switched.as_bytes().eq_ignore_ascii_case(protocol.as_bytes())) {
        return Err(UpstreamError::Protocol);
    }
    let server = on(&mut response);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, protocol);
    let mut switched = Response::new(Body::empty());
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *switched.headers_mut() = headers;
    let tunnel = Box::pin(async move {
        match tokio::try_join!(client, server) {
            Ok((client, server)) => copy(TokioIo::new(client), TokioIo::new(server), held.closed()).await,
            Err(error) => debug!(%error, "a connection could not switch its protocol"),
        }
    });
    Ok((switched, Some(tunnel)))
}

async fn copy(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
    replaced: impl Future<Output = ()>,
) {
    let activity = Arc::new(Activity::new());
    let mut client = ActivityStream { stream: client, activity: activity.clone() };
    let mut server = ActivityStream { stream: server, activity: activity.clone() };
    tokio::select! {
        ended = copy_bidirectional(&mut client, &mut server) => {
            if let Err(error) = ended {
                debug!(%error, "a switched connection broke");
            }
        }
        () = activity.idle() => debug!("a switched connection was idle for too long"),
        () = replaced => debug!("a switched connection gives its place to another one"),
    }
}

/// When a byte was read last.
struct Activity {
    started: Instant,
    /// Milliseconds from the start.
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self { started: Instant::now(), last: AtomicU64::new(0) }
    }

    fn tick(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Completes when nothing was read for too long.
    async fn idle(&self) {
        loop {
            let last = self.started + Duration::from_millis(self.last.load(Ordering::Relaxed));
            let left = IDLE_TIMEOUT.saturating_sub(last.elapsed());
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

/// A stream that records when bytes are read.
struct ActivityStream<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        self.activity.tick();
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn half_of_a_connection_can_end_before_the_other() {
        let ((mut user, client), (mut pod, server)) = (duplex(16), duplex(16));
        let copying = tokio::spawn(copy(client, server, std::future::pending()));
        user.write_all(b"question").await.unwrap();
        user.shutdown().await.unwrap();
        let mut question = String::new();
        pod.read_to_string(&mut question).await.unwrap();
        pod.write_all(b"answer").await.unwrap();
        drop(pod);
        let mut answer = String::new();
        user.read_to_string(&mut answer).await.unwrap();
        assert_eq!((question.as_str(), answer.as_str()), ("question", "answer"));
        copying.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn clock_ends_after_four_hours_without_a_byte() {
        let activity = Arc::new(Activity::new());
        let (mut writer, reader) = duplex(16);
        let mut stream = ActivityStream { stream: reader, activity: activity.clone() };
        tokio::time::advance(Duration::from_hours(3)).await;
        writer.write_all(b"a").await.unwrap();
        stream.read_u8().await.unwrap();
        let began = Instant::now();
        activity.idle().await;
        assert_eq!(began.elapsed(), IDLE_TIMEOUT);
    }
}
