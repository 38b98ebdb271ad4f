//! Serves connections and forwards requests.

use std::{convert::Infallible, sync::Arc};

use futures::{Stream, TryStreamExt, stream};
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use kube::client::Body;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use super::{Control, Shared, frames::status, request_info::RequestInfo, watch_relay::WatchRelay};
use crate::token::Token;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Closes the connection without a response. With HTTP/2, only the request is reset.
#[derive(Debug, thiserror::Error)]
#[error("the connection breaks")]
pub(super) struct ConnectionClosed;

/// A request with its complete body.
pub(super) struct BufferedRequest {
    pub(super) parts: http::request::Parts,
    pub(super) body: Bytes,
    pub(super) info: Option<RequestInfo>,
}

impl BufferedRequest {
    /// Builds the request for the API server.
    pub(super) fn to_upstream(&self) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.parts.method.clone();
        *request.headers_mut() = self.parts.headers.clone();
        for hop in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
            request.headers_mut().remove(hop);
        }
        // The proxy reads objects and events, and builds some.
        request.headers_mut().insert(header::ACCEPT, JSON);
        let path = self.parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        *request.uri_mut() = path.parse().unwrap_or_default();
        request
    }

    fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }
}

pub(super) fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    connections.spawn(connect(stream, tls.clone(), shared.clone()));
                },
                Some(_) = connections.join_next() => {}
            }
        }
    })
}

/// Serves a connection until it ends or is closed.
async fn connect(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    let mut control = shared.control.subscribe();
    let _ = stream.set_nodelay(true);
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(move |request| handle(shared.clone(), request));
    let server = auto::Builder::new(TokioExecutor::new());
    let serving = server.serve_connection(TokioIo::new(stream), service);
    let cut = async {
        loop {
            match control.recv().await {
                Ok(Control::Cut) | Err(tokio::sync::broadcast::error::RecvError::Closed) => break,
                _ => {}
            }
        }
    };
    // Errors on closing do not matter.
    tokio::select! { _ = serving => {}, () = cut => {} }
}

async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, ConnectionClosed> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| ConnectionClosed)?.to_bytes();
    let info =
        RequestInfo::read(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default(), &body);
    let _pending = Pending::of(&shared, info.as_ref());
    let request = BufferedRequest { parts, body, info };
    shared.clone().until_connected().await?;
    let fault = request.info.as_ref().and_then(|info| shared.rules.lock().fault_for_request(info));
    if let Some(fault) = fault
        && let Some(answer) = shared.inject(&request, fault).await?
    {
        return Ok(answer);
    }
    if let Some(refused) = shared.expire(&request) {
        return Ok(refused);
    }
    if request.info.as_ref().is_some_and(|info| info.verb == "watch") {
        return shared.watch(request).await;
    }
    shared.forward(&request).await
}

/// A write of a run that has no response yet.
struct Pending {
    shared: Arc<Shared>,
    token: Token,
}

impl Pending {
    fn of(shared: &Arc<Shared>, info: Option<&RequestInfo>) -> Option<Self> {
        let token = info.filter(|info| info.is_write())?.token()?;
        shared.rules.lock().begin_write(token);
        Some(Self { shared: shared.clone(), token })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.shared.rules.lock().end_write(self.token);
    }
}

impl Shared {
    /// Waits while the network is partitioned. Fails for requests of a previous process.
    async fn until_connected(self: Arc<Self>) -> Result<(), ConnectionClosed> {
        let mut life = self.life.subscribe();
        let begun = life.borrow().number;
        let free = life.wait_for(|life| life.number != begun || !(life.is_over || life.is_cut)).await;
        let is_same = free.map_err(|_| ConnectionClosed)?.number == begun;
        if is_same { Ok(()) } else { Err(ConnectionClosed) }
    }

    /// Forwards a request, records the response, and returns it.
    pub(super) async fn forward(&self, request: &BufferedRequest) -> Result<Answer, ConnectionClosed> {
        let before = request.info.as_ref().and_then(|info| self.rules.lock().known(info));
        let answer = self.upstream.send(request.to_upstream()).await.map_err(|_| ConnectionClosed)?;
        let (parts, body) = answer.into_parts();
        let mut body = body.collect_bytes().await.map_err(|_| ConnectionClosed)?;
        if let Some(info) = &request.info {
            if info.verb == "list" && self.rules.lock().paged {
                body = page(&body).unwrap_or(body);
            }
            self.rules.lock().answered(info, before.as_ref(), &request.body, parts.status.as_u16(), &body);
        }
        Ok(rebuild(parts, Full::new(body).boxed_unsync()))
    }

    /// Forwards a watch.
    async fn watch(self: Arc<Self>, request: BufferedRequest) -> Result<Answer, ConnectionClosed> {
        let control = self.control.subscribe();
        let answer = self.upstream.send(request.to_upstream()).await.map_err(|_| ConnectionClosed)?;
        let (parts, body) = answer.into_parts();
        if !parts.status.is_success() {
            let body = body.collect_bytes().await.map_err(|_| ConnectionClosed)?;
            return Ok(rebuild(parts, Full::new(body).boxed_unsync()));
        }
        let (sender, receiver) = mpsc::channel(16);
        let resource = request.info.as_ref().map(|info| info.resource.clone()).unwrap_or_default();
        let lists = request.query().contains("sendInitialEvents=true");
        let pieces = body.into_data_stream().map_err(drop);
        tokio::spawn(WatchRelay::new(self, resource, lists, sender).run(Box::pin(pieces), control));
        let frames = StreamBody::new(frames(receiver));
        Ok(rebuild(parts, BodyExt::boxed_unsync(frames)))
    }

    /// Returns the response to a list or watch whose version or continue token expires.
    fn expire(&self, request: &BufferedRequest) -> Option<Answer> {
        let info = request.info.as_ref()?;
        let query = request.query();
        let mut rules = self.rules.lock();
        if info.verb == "watch" {
            if rules.paged && query.contains("sendInitialEvents") {
                return Some(refusal(422, "Invalid", "sendInitialEvents is forbidden for watch"));
            }
            let place = rules.expired.iter().position(|resource| *resource == info.resource)?;
            rules.expired.remove(place);
            return Some(refusal(410, "Expired", "too old resource version: 1 (2)"));
        }
        if info.verb == "list" && rules.paged && query.contains("continue=") {
            rules.paged = false;
            return Some(refusal(410, "Expired", "the provided continue parameter is too old"));
        }
        None
    }
}

/// Returns the first page of a list that has more pages.
fn page(list: &[u8]) -> Option<Bytes> {
    let mut list: Value = serde_json::from_slice(list).ok()?;
    list.pointer_mut("/metadata")?.as_object_mut()?.insert("continue".to_owned(), Value::from("rest"));
    Some(Bytes::from(list.to_string()))
}

/// Builds an error response of the proxy.
pub(super) fn refusal(code: u16, reason: &str, message: &str) -> Answer {
    answer(code, &status(code, reason, message))
}

pub(super) fn answer(code: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    answer
}

fn rebuild(parts: http::response::Parts, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = parts.status;
    *answer.headers_mut() = parts.headers;
    for hop in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
        answer.headers_mut().remove(hop);
    }
    answer
}

fn frames(receiver: mpsc::Receiver<Vec<u8>>) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    stream::unfold(receiver, |mut receiver| async move {
        let line = receiver.recv().await?;
        Some((Ok(Frame::data(Bytes::from(line))), receiver))
    })
}
