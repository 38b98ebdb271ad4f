//! Connections, and the way of a request.

use std::{convert::Infallible, sync::Arc};

use futures::{Stream, TryStreamExt, stream};
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use super::{Control, Shared, asked::Asked, frames::status, pump::Pump};

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The connection breaks, without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection breaks")]
pub(super) struct Broken;

/// A request whose body has come.
pub(super) struct Whole {
    pub(super) parts: http::request::Parts,
    pub(super) body: Bytes,
    pub(super) asked: Option<Asked>,
}

impl Whole {
    /// The request again, for the API server.
    pub(super) fn request(&self) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.parts.method.clone();
        *request.headers_mut() = self.parts.headers.clone();
        for hop in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
            request.headers_mut().remove(hop);
        }
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

/// Serves a connection until it ends, or all are cut.
async fn connect(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    let mut control = shared.control.subscribe();
    let _ = stream.set_nodelay(true);
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(move |request| handle(shared.clone(), request));
    let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let cut = async {
        loop {
            match control.recv().await {
                Ok(Control::Cut) | Err(tokio::sync::broadcast::error::RecvError::Closed) => break,
                _ => {}
            }
        }
    };
    // An end is an end, however it came.
    tokio::select! { _ = serving => {}, () = cut => {} }
}

async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let asked = Asked::read(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default(), &body);
    let whole = Whole { parts, body, asked };
    shared.clone().alive().await?;
    let fault = whole.asked.as_ref().and_then(|asked| shared.rules.lock().meet(asked));
    if let Some(fault) = fault
        && let Some(answer) = shared.strike(&whole, fault).await?
    {
        return Ok(answer);
    }
    if let Some(refused) = shared.expire(&whole) {
        return Ok(refused);
    }
    if whole.asked.as_ref().is_some_and(|asked| asked.verb == "watch") {
        return shared.watch(whole).await;
    }
    shared.pass_on(&whole).await
}

impl Shared {
    /// Waits while the way is cut. What belongs to a life that is over is never passed on.
    async fn alive(self: Arc<Self>) -> Result<(), Broken> {
        let mut life = self.life.subscribe();
        let begun = life.borrow().number;
        let free = life.wait_for(|life| life.number != begun || !(life.is_over || life.is_cut)).await;
        let is_same = free.map_err(|_| Broken)?.number == begun;
        if is_same { Ok(()) } else { Err(Broken) }
    }

    /// Passes a request on and hands back the answer, which is taken note of.
    pub(super) async fn pass_on(&self, whole: &Whole) -> Result<Answer, Broken> {
        let before = whole.asked.as_ref().and_then(|asked| self.rules.lock().known(asked));
        let answer = self.upstream.send(whole.request()).await.map_err(|_| Broken)?;
        let (parts, body) = answer.into_parts();
        let mut body = body.collect_bytes().await.map_err(|_| Broken)?;
        if let Some(asked) = &whole.asked {
            if asked.verb == "list" && self.rules.lock().paged {
                body = page(&body).unwrap_or(body);
            }
            self.rules.lock().answered(asked, before.as_ref(), &whole.body, parts.status.as_u16(), &body);
        }
        Ok(rebuilt(parts, Full::new(body).boxed_unsync()))
    }

    /// Passes a watch on, and its frames through a pump.
    async fn watch(self: Arc<Self>, whole: Whole) -> Result<Answer, Broken> {
        let control = self.control.subscribe();
        let answer = self.upstream.send(whole.request()).await.map_err(|_| Broken)?;
        let (parts, body) = answer.into_parts();
        if !parts.status.is_success() {
            let body = body.collect_bytes().await.map_err(|_| Broken)?;
            return Ok(rebuilt(parts, Full::new(body).boxed_unsync()));
        }
        let (sender, receiver) = mpsc::channel(16);
        let resource = whole.asked.as_ref().map(|asked| asked.resource.clone()).unwrap_or_default();
        let lists = whole.query().contains("sendInitialEvents=true");
        let pieces = body.into_data_stream().map_err(drop);
        tokio::spawn(Pump::new(self, resource, lists, sender).run(Box::pin(pieces), control));
        let frames = StreamBody::new(frames(receiver));
        Ok(rebuilt(parts, BodyExt::boxed_unsync(frames)))
    }

    /// What a list or watch is told whose version or rest is to have expired.
    fn expire(&self, whole: &Whole) -> Option<Answer> {
        let asked = whole.asked.as_ref()?;
        let query = whole.query();
        let mut rules = self.rules.lock();
        if asked.verb == "watch" {
            if rules.paged && query.contains("sendInitialEvents") {
                return Some(refusal(422, "Invalid", "sendInitialEvents is forbidden for watch"));
            }
            let place = rules.expired.iter().position(|resource| *resource == asked.resource)?;
            rules.expired.remove(place);
            return Some(refusal(410, "Expired", "too old resource version: 1 (2)"));
        }
        if asked.verb == "list" && rules.paged && query.contains("continue=") {
            rules.paged = false;
            return Some(refusal(410, "Expired", "the provided continue parameter is too old"));
        }
        None
    }
}

/// A list of which there is more to come.
fn page(list: &[u8]) -> Option<Bytes> {
    let mut list: Value = serde_json::from_slice(list).ok()?;
    list.pointer_mut("/metadata")?.as_object_mut()?.insert("continue".to_owned(), Value::from("rest"));
    Some(Bytes::from(list.to_string()))
}

/// An answer of the proxy itself.
pub(super) fn refusal(code: u16, reason: &str, message: &str) -> Answer {
    answer(code, &status(code, reason, message))
}

pub(super) fn answer(code: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn rebuilt(parts: http::response::Parts, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
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
