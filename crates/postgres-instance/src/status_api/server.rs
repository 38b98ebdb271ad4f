//! Accept loop of one address, with limits for its clients.
//!
//! Every Pod in the cluster network can connect. See [`super::connections`] for what happens if too
//! many do.

use std::{convert::Infallible, future::Future, pin::pin, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, rt, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    activity::Activity,
    certificates::CertificateFiles,
    client::Client,
    connections::Connections,
    limits::{Limits, MAX_HEAD, MAX_HEADERS},
    response::Response,
};

/// Time after `stop` in which the last responses are sent.
const GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Wait after a failed accept, for example because no file descriptor is left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Answers the requests of one address.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers a request. The server drops the future if the client closes the connection.
    fn handle(&self, request: Request<Incoming>, client: Client) -> impl Future<Output = Response> + Send;
}

/// State that all connections of an address share.
pub(super) struct Server<H> {
    pub(super) handler: H,
    /// Certificates for TLS. `None` means plain HTTP.
    pub(super) certificates: Option<CertificateFiles>,
    pub(super) limits: Limits,
    pub(super) stop: CancellationToken,
}

/// Serves HTTP/1.1 without TLS until `stop`. Then waits for the last responses.
pub(crate) async fn serve_http<H: Handler>(
    listener: TcpListener,
    handler: H,
    limits: Limits,
    stop: CancellationToken,
) {
    run(listener, Server { handler, certificates: None, limits, stop }).await;
}

/// Serves HTTP/1.1 until `stop`. Then waits for the last responses.
pub(super) async fn run<H: Handler>(listener: TcpListener, server: Server<H>) {
    let server = Arc::new(server);
    let mut connections = Connections::new(server.limits.connections);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let activity = Activity::new();
                    connections.add(activity.clone(), server.clone().serve(stream, activity)).await;
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_RETRY).await;
                }
            },
            Some(()) = connections.next_end() => {}
            () = server.stop.cancelled() => break,
        }
    }
    drop(listener);
    let _ = timeout(GRACE_PERIOD, connections.all_ended()).await;
}

impl<H: Handler> Server<H> {
    /// Serves one connection until either side closes it.
    async fn serve(self: Arc<Self>, stream: TcpStream, activity: Activity) {
        // Responses are small, so batching packets would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "cannot disable delayed packets of a connection");
        }
        let Some(certificates) = &self.certificates else {
            return self.drive(stream, &activity).await;
        };
        if let Some(stream) = self.handshake(certificates, stream).await {
            let (_, session) = stream.get_ref();
            let certificate = session.peer_certificates().and_then(|chain| chain.first());
            activity.set_client(certificate.map_or(Client::Unknown, Client::of));
            self.drive(stream, &activity).await;
        }
    }

    async fn handshake(
        &self,
        certificates: &CertificateFiles,
        stream: TcpStream,
    ) -> Option<TlsStream<TcpStream>> {
        let handshake = TlsAcceptor::from(certificates.current()).accept(stream);
        let result = self.stop.run_until_cancelled(timeout(self.limits.handshake, handshake)).await?;
        match result {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_late) => debug!("TLS handshake timed out"),
        }
        None
    }

    async fn drive<I>(&self, stream: I, activity: &Activity)
    where
        TokioIo<I>: rt::Read + rt::Write + Unpin,
    {
        let service = service_fn(async |request| {
            let _in_progress = activity.start_request();
            Ok::<_, Infallible>(self.handler.handle(request, activity.client()).await)
        });
        let mut connection = pin!(self.protocol().serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            // Errors of a client are not logged.
            _ = connection.as_mut() => return,
            () = self.stop.cancelled() => {}
            () = sleep(self.limits.age) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = timeout(self.limits.last_request(), connection).await;
    }

    fn protocol(&self) -> http1::Builder {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            // It also closes idle connections.
            .header_read_timeout(self.limits.idle)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS);
        protocol
    }
}
