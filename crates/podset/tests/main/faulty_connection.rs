//! Connection to the API server that loses responses and delays watch events.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, io::BufReader, stream::BoxStream};
use http::{HeaderValue, Method, Request, header::ACCEPT};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::{Client, client::Body};
use tokio::sync::watch;
use tower::service_fn;

/// Body of a response as a stream of frames.
type Frames = BoxStream<'static, io::Result<Frame<<Body as http_body::Body>::Data>>>;

/// Which watch events of Pods are delivered. Other events are delayed, not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEvents {
    /// All.
    Delivered,
    /// Those before the first event of a terminating or deleted Pod.
    DeliveredUntilDelete,
    /// None.
    Delayed,
}

/// Controls the connection of the client that [`FaultyConnection::client`] returns.
pub(crate) struct FaultyConnection {
    events: watch::Sender<WatchEvents>,
    loses_deletes: Arc<AtomicBool>,
}

impl FaultyConnection {
    pub(crate) fn new() -> Self {
        Self { events: watch::Sender::new(WatchEvents::Delivered), loses_deletes: Arc::default() }
    }

    pub(crate) fn set_watch_events(&self, events: WatchEvents) {
        self.events.send_replace(events);
    }

    /// Sets whether the response to each delete is lost. The delete itself takes effect.
    pub(crate) fn lose_delete_responses(&self, lost: bool) {
        self.loses_deletes.store(lost, SeqCst);
    }

    pub(crate) fn client(&self, inner: &Client) -> Client {
        let (inner, events, loses) = (inner.clone(), self.events.subscribe(), self.loses_deletes.clone());
        let namespace = inner.default_namespace().to_owned();
        let service = service_fn(move |mut request: Request<Body>| {
            let (inner, events, loses) = (inner.clone(), events.clone(), loses.clone());
            async move {
                let is_delete = request.method() == Method::DELETE;
                let is_watch = is_pod_watch(&request);
                if is_watch {
                    // Events are told apart by their text.
                    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
                }
                let response = inner.send(request).await?;
                if is_delete && loses.load(SeqCst) {
                    return Err(Box::<dyn std::error::Error + Send + Sync>::from("connection reset"));
                }
                Ok(response.map(|body| {
                    StreamBody::new(if is_watch { delay(body, events) } else { pass_through(body) })
                }))
            }
        });
        Client::new(service, namespace)
    }
}

fn is_pod_watch(request: &Request<Body>) -> bool {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    path.ends_with("/pods") && query.contains("watch=true")
}

fn pass_through(body: Body) -> Frames {
    body.into_data_stream().map_ok(Frame::data).map_err(io::Error::other).boxed()
}

/// Delays each event of a watch until [`WatchEvents`] allows it.
fn delay(body: Body, events: watch::Receiver<WatchEvents>) -> Frames {
    let bytes = body.into_data_stream().map_err(io::Error::other).into_async_read();
    let lines = BufReader::new(bytes).lines().then(move |line| {
        let mut events = events.clone();
        async move {
            let line = line? + "\n";
            let is_delete = line.contains(r#""deletionTimestamp""#) || line.contains(r#""type":"DELETED""#);
            let is_delivered = |events: &WatchEvents| match events {
                WatchEvents::Delivered => true,
                WatchEvents::DeliveredUntilDelete => !is_delete,
                WatchEvents::Delayed => false,
            };
            drop(events.wait_for(is_delivered).await);
            Ok(Frame::data(line.into_bytes().into()))
        }
    });
    lines.boxed()
}
