//! A small S3 server in memory, which can do what real ones do not. It checks no signatures.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt::Write,
    iter,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode, header::IF_NONE_MATCH};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::{net::TcpListener, task::AbortHandle};

use crate::server::BUCKET;

/// What the server does with `If-None-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Honored,
    Ignored,
    Refused(StatusCode),
}

/// What the server has, and how it behaves.
pub(crate) struct State {
    pub(crate) objects: BTreeMap<String, Object>,
    pub(crate) condition: Condition,
    /// How many conditional requests are refused because another one is in flight.
    pub(crate) busy: u32,
    /// How many deletions succeed before the others are denied.
    pub(crate) deletions: u32,
    /// Objects in a page of a listing.
    pub(crate) page: usize,
    /// Answer to all requests for objects and listings.
    pub(crate) hostile: Option<Hostile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) content: Bytes,
    pub(crate) sha256: Option<String>,
}

/// Answer that no server should send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hostile {
    /// A body without an end.
    Endless,
    /// A length that the body does not have.
    Length(u64),
    /// No XML.
    Html,
}

/// The server. It stops when it is dropped.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    task: AbortHandle,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

impl Fake {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State {
            objects: BTreeMap::new(),
            condition: Condition::Honored,
            busy: 0,
            deletions: u32::MAX,
            page: 1000,
            hostile: None,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = shared.clone();
                let service = service_fn(move |request| answer(request, state.clone()));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, state, task: task.abort_handle() }
    }

    /// Reads or changes the state.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    /// Returns the keys of all objects without their first part, the prefix.
    pub(crate) fn keys(&self) -> Vec<String> {
        let key = |key: &String| key.split_once('/').unwrap().1.to_owned();
        self.with(|state| state.objects.keys().map(key).collect())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let key = parts.uri.path().trim_start_matches('/').trim_start_matches(BUCKET).trim_start_matches('/');
    let query: BTreeMap<_, _> = parts.uri.query().unwrap_or_default().split('&').filter_map(pair).collect();
    let mut state = state.lock().unwrap();
    if let Some(hostile) = state.hostile
        && parts.method == Method::GET
    {
        return Ok(hostile.answer());
    }
    Ok(match parts.method {
        Method::PUT => {
            let sha256 =
                parts.headers.get("x-amz-meta-sha256").map(|value| value.to_str().unwrap().to_owned());
            state.put(key, Object { content: body, sha256 }, parts.headers.contains_key(IF_NONE_MATCH))
        }
        Method::DELETE => state.delete(key),
        _ if query.contains_key("list-type") => state.list(&query),
        _ => state.get(key),
    })
}

fn pair(pair: &str) -> Option<(String, String)> {
    let (name, value) = pair.split_once('=')?;
    Some((name.to_owned(), percent_decode_str(value).decode_utf8().unwrap().into_owned()))
}

impl State {
    fn put(&mut self, key: &str, object: Object, is_conditional: bool) -> Answer {
        if is_conditional && self.busy > 0 {
            self.busy -= 1;
            return refusal(StatusCode::CONFLICT, "ConditionalRequestConflict");
        }
        match self.condition {
            Condition::Refused(status) if is_conditional => return refusal(status, "NotImplemented"),
            Condition::Honored if is_conditional && self.objects.contains_key(key) => {
                return refusal(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
            }
            _ => {}
        }
        self.objects.insert(key.to_owned(), object);
        Response::builder().header("etag", "\"1\"").body(full("")).unwrap()
    }

    fn delete(&mut self, key: &str) -> Answer {
        if self.deletions == 0 {
            return refusal(StatusCode::FORBIDDEN, "AccessDenied");
        }
        self.deletions -= 1;
        self.objects.remove(key);
        Response::builder().status(StatusCode::NO_CONTENT).body(full("")).unwrap()
    }

    fn get(&self, key: &str) -> Answer {
        let Some(object) = self.objects.get(key) else { return refusal(StatusCode::NOT_FOUND, "NoSuchKey") };
        let mut answer =
            Response::builder().header("etag", "\"1\"").header("content-length", object.content.len());
        if let Some(sha256) = &object.sha256 {
            answer = answer.header("x-amz-meta-sha256", sha256);
        }
        answer.body(full(object.content.clone())).unwrap()
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Answer {
        let value = |name: &str| query.get(name).cloned().unwrap_or_default();
        let (prefix, after) = (value("prefix"), value("start-after").max(value("continuation-token")));
        let found = self.objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
        let mut found: Vec<_> = found.take(self.page + 1).collect();
        let is_truncated = found.len() > self.page;
        found.truncate(self.page);
        let mut xml = "<ListBucketResult>".to_owned();
        for (key, object) in &found {
            let size = object.content.len();
            let modified = "2026-11-24T00:00:00.000Z";
            write!(xml, "<Contents><Key>{key}</Key><LastModified>{modified}</LastModified><Size>{size}</Size></Contents>").unwrap();
        }
        if is_truncated {
            write!(xml, "<NextContinuationToken>{}</NextContinuationToken>", found[found.len() - 1].0)
                .unwrap();
        }
        Response::new(full(xml + "</ListBucketResult>"))
    }
}

impl Hostile {
    fn answer(self) -> Answer {
        let ok = Response::builder().header("etag", "\"1\"").header("x-amz-meta-sha256", "0".repeat(64));
        match self {
            Self::Endless => {
                let chunk = Bytes::from(vec![b' '; 64 << 10]);
                let frames = stream::iter(iter::repeat(chunk)).map(|chunk| Ok(Frame::data(chunk)));
                ok.header("content-length", u64::MAX / 2)
                    .body(BodyExt::boxed(StreamBody::new(frames)))
                    .unwrap()
            }
            Self::Length(length) => ok.header("content-length", length).body(full("short")).unwrap(),
            Self::Html => ok.body(full("<html><body>Welcome</body></html>")).unwrap(),
        }
    }
}

fn refusal(status: StatusCode, code: &str) -> Answer {
    let body = format!("<Error><Code>{code}</Code><Message>No.</Message></Error>");
    Response::builder().status(status).body(full(body)).unwrap()
}

fn full(content: impl Into<Bytes>) -> BoxBody<Bytes, Infallible> {
    Full::new(content.into()).boxed()
}
