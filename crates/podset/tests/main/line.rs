//! A connection to the API server that loses answers and is late with its news.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, io::BufReader, stream::BoxStream};
use http::{Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::{Client, client::Body};
use tokio::sync::watch;
use tower::service_fn;

/// The body of a response, piece by piece.
type Frames = BoxStream<'static, io::Result<Frame<<Body as http_body::Body>::Data>>>;

/// Which news of pods come through; what does not is late, not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Whatever there is.
    All,
    /// Those before the first that tells of a pod that goes.
    BeforeDeletes,
    /// None.
    Held,
}

/// The connection of the client that [`Line::client`] makes.
pub(crate) struct Line {
    news: watch::Sender<News>,
    loses_deletes: Arc<AtomicBool>,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { news: watch::Sender::new(News::All), loses_deletes: Arc::default() }
    }

    pub(crate) fn news(&self, news: News) {
        self.news.send_replace(news);
    }

    /// Whether the answer to each delete is lost. The delete is carried out.
    pub(crate) fn lose_deletes(&self, lost: bool) {
        self.loses_deletes.store(lost, SeqCst);
    }

    pub(crate) fn client(&self, inner: &Client) -> Client {
        let (inner, news, loses) = (inner.clone(), self.news.subscribe(), self.loses_deletes.clone());
        let namespace = inner.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (inner, news, loses) = (inner.clone(), news.clone(), loses.clone());
            async move {
                let is_delete = request.method() == Method::DELETE;
                let is_watch = is_watch_of_pods(&request);
                let response = inner.send(request).await?;
                if is_delete && loses.load(SeqCst) {
                    return Err(Box::<dyn std::error::Error + Send + Sync>::from("the connection is cut"));
                }
                Ok(response
                    .map(|body| StreamBody::new(if is_watch { late(body, news) } else { as_it_is(body) })))
            }
        });
        Client::new(service, namespace)
    }
}

fn is_watch_of_pods(request: &Request<Body>) -> bool {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    path.ends_with("/pods") && query.contains("watch=true")
}

fn as_it_is(body: Body) -> Frames {
    body.into_data_stream().map_ok(Frame::data).map_err(io::Error::other).boxed()
}

/// One event of the watch after the other, each when it may come through.
fn late(body: Body, news: watch::Receiver<News>) -> Frames {
    let bytes = body.into_data_stream().map_err(io::Error::other).into_async_read();
    let events = BufReader::new(bytes).lines().then(move |event| {
        let mut news = news.clone();
        async move {
            let event = event? + "\n";
            let goes = event.contains(r#""deletionTimestamp""#) || event.contains(r#""type":"DELETED""#);
            let may_come = |news: &News| *news == News::All || (*news == News::BeforeDeletes && !goes);
            drop(news.wait_for(may_come).await);
            Ok(Frame::data(event.into_bytes().into()))
        }
    });
    events.boxed()
}
