//! An API server in the process of the test, which records what it gets.
//!
//! It serves HTTP/2 to requests, and HTTP/1.1 to caches and to requests for another protocol.

mod api;
mod http1;

use std::{convert::Infallible, net::Ipv4Addr, sync::Arc};

pub(crate) use api::{Answer, CLIENT_CA, Objects};
use futures::StreamExt;
use http::{HeaderMap, Request, Response, Version, request::Parts};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::Config;
use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Token of the proxy itself.
pub(crate) const PROXY_TOKEN: &str = "proxy-token";

/// A request, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) version: Version,
    /// Protocol for which the client asked in the TLS handshake.
    pub(crate) alpn: Option<String>,
    pub(crate) method: String,
    pub(crate) target: String,
    /// Headers in their order. Names are in lower case.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// Body. For a request of another protocol: all bytes after the headers.
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, Vec<u8>)>,
    /// Number of bytes of a request for another protocol that came before its answer.
    pub(crate) bytes_before_answer: usize,
    /// Whether the whole request, or the end of a connection with another protocol, has come.
    pub(crate) is_complete: bool,
}

impl Recorded {
    fn of(parts: &Parts, alpn: Option<String>) -> Self {
        Self {
            version: parts.version,
            alpn,
            method: parts.method.to_string(),
            target: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            headers: lines(&parts.headers),
            body: Vec::new(),
            trailers: Vec::new(),
            bytes_before_answer: 0,
            is_complete: false,
        }
    }

    /// Returns the values of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<&[u8]> {
        let found = self.headers.iter().filter(|(one, _)| one == name);
        found.map(|(_, value)| value.as_slice()).collect()
    }

    /// Returns whether the one credential is this token.
    pub(crate) fn is_by(&self, token: &str) -> bool {
        self.all("authorization") == [format!("Bearer {token}").as_bytes()]
    }

    /// Returns the path and the query.
    pub(crate) fn path_and_query(&self) -> (&str, &str) {
        self.target.split_once('?').unwrap_or((&self.target, ""))
    }

    /// Returns whether the request is for another protocol.
    pub(crate) fn is_upgrade(&self) -> bool {
        self.version == Version::HTTP_11 && !self.all("upgrade").is_empty()
    }

    /// Returns whether the request is one of the proxy's caches.
    pub(crate) fn is_of_cache(&self) -> bool {
        self.version == Version::HTTP_11 && !self.is_upgrade()
    }
}

fn lines(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

/// Returns an answer instead of the usual one.
type Override = Box<dyn Fn(&Recorded) -> Option<Answer> + Send + Sync>;

/// The API server.
#[derive(Clone)]
pub(crate) struct Upstream(Arc<State>);

struct State {
    objects: Objects,
    requests: watch::Sender<Vec<Recorded>>,
    overridden: Mutex<Option<Override>>,
    /// Bytes with which requests for another protocol are answered. `None` leaves them without an answer.
    switched: watch::Sender<Option<Vec<u8>>>,
    /// Changes when all answers that have no end are ended.
    end: watch::Sender<()>,
}

impl Upstream {
    /// Starts an API server with these objects. Returns it, and the configuration of the proxy for it.
    pub(crate) async fn start(objects: Objects) -> (Self, Config) {
        let identity = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der()));
        let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![identity.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut config = Config::new(format!("https://{}", listener.local_addr().unwrap()).parse().unwrap());
        config.root_cert = Some(vec![identity.cert.der().to_vec()]);
        config.auth_info.token = Some(PROXY_TOKEN.to_owned().into());
        let state = State {
            objects,
            requests: watch::Sender::default(),
            overridden: Mutex::default(),
            switched: watch::Sender::new(Some(http1::REFUSED.to_vec())),
            end: watch::Sender::default(),
        };
        let upstream = Self(Arc::new(state));
        tokio::spawn(upstream.clone().listen(listener, TlsAcceptor::from(Arc::new(tls))));
        (upstream, config)
    }

    async fn listen(self, listener: TcpListener, tls: TlsAcceptor) {
        while let Ok((stream, _)) = listener.accept().await {
            let (upstream, tls) = (self.clone(), tls.clone());
            tokio::spawn(async move {
                if let Ok(stream) = tls.accept(stream).await {
                    upstream.serve(stream).await;
                }
            });
        }
    }

    async fn serve(self, stream: TlsStream<TcpStream>) {
        let alpn = stream.get_ref().1.alpn_protocol();
        let alpn = alpn.map(|protocol| String::from_utf8_lossy(protocol).into_owned());
        if alpn.as_deref() != Some("h2") {
            return http1::serve(stream, alpn, self).await;
        }
        let answer = service_fn(|request| self.answer_http2(request, alpn.clone()));
        // A connection that breaks is no failure of the test.
        let _ = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_header_list_size(1 << 20)
            .serve_connection(TokioIo::new(stream), answer)
            .await;
    }

    fn answer_http2(
        &self,
        request: Request<Incoming>,
        alpn: Option<String>,
    ) -> impl Future<Output = Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible>> + use<> {
        let upstream = self.clone();
        async move {
            let (parts, body) = request.into_parts();
            let mut recorded = Recorded::of(&parts, alpn);
            let index = upstream.record(recorded.clone());
            if let Ok(collected) = body.collect().await {
                recorded.trailers = collected.trailers().map(lines).unwrap_or_default();
                recorded.body = collected.to_bytes().to_vec();
                recorded.is_complete = true;
                upstream.update(index, |request| *request = recorded.clone());
            }
            let answer = upstream.answer_to(&recorded);
            if answer.is_withheld {
                std::future::pending::<()>().await;
            }
            Ok(http2_response(answer, upstream.next_end()))
        }
    }

    fn answer_to(&self, request: &Recorded) -> Answer {
        let overridden = self.0.overridden.lock().as_ref().and_then(|answer| answer(request));
        overridden.unwrap_or_else(|| api::answer(request, &self.0.objects))
    }

    /// Answers all requests for which `answer` returns something with that.
    pub(crate) fn override_answers(
        &self,
        answer: impl Fn(&Recorded) -> Option<Answer> + Send + Sync + 'static,
    ) {
        *self.0.overridden.lock() = Some(Box::new(answer));
    }

    /// Answers requests for another protocol with these bytes, or not yet.
    pub(crate) fn answer_upgrades(&self, bytes: Option<&str>) {
        self.0.switched.send_replace(bytes.map(|bytes| bytes.as_bytes().to_vec()));
    }

    /// Ends all answers that have no end: those over HTTP/2 in order, and those of caches by closing the
    /// connection.
    pub(crate) fn end_watches(&self) {
        self.0.end.send_replace(());
    }

    /// Completes when answers are ended.
    fn next_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut end = self.0.end.subscribe();
        async move {
            // Without a sender, the test has ended.
            let _ = end.changed().await;
        }
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.0.requests.borrow().clone()
    }

    /// Waits until the requests meet a condition.
    pub(crate) async fn wait_for(&self, is_met: impl FnMut(&Vec<Recorded>) -> bool) {
        self.0.requests.subscribe().wait_for(is_met).await.unwrap();
    }

    /// Records a request. Returns its index.
    fn record(&self, request: Recorded) -> usize {
        let mut index = 0;
        self.0.requests.send_modify(|requests| {
            index = requests.len();
            requests.push(request);
        });
        index
    }

    fn update(&self, index: usize, update: impl FnOnce(&mut Recorded)) {
        self.0.requests.send_modify(|requests| update(&mut requests[index]));
    }
}

fn http2_response(
    answer: Answer,
    end: impl Future<Output = ()> + Send + 'static,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    let body = Bytes::from(answer.body);
    let body = if answer.is_endless {
        let first = futures::stream::iter([Ok(Frame::data(body))]);
        let until_end = futures::stream::once(async move {
            end.await;
            Ok(Frame::data(Bytes::new()))
        });
        StreamBody::new(first.chain(until_end)).boxed_unsync()
    } else {
        Full::new(body).boxed_unsync()
    };
    response.body(body).unwrap()
}
