//! A client whose connection to the API server can be cut.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::sync::watch;
use tower::service_fn;

/// Body of a response in frames.
type Frames = BoxStream<'static, kube::Result<Frame<<Body as http_body::Body>::Data>>>;

/// Cuts and restores the connection of the client from [`Gate::client`].
pub(crate) struct Gate {
    open: watch::Sender<bool>,
    expire: Arc<AtomicBool>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { open: watch::Sender::new(true), expire: Arc::default() }
    }

    /// Ends all open responses and rejects requests.
    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Accepts requests again. The first watch that resumes is expired.
    pub(crate) fn restore_expired(&self) {
        self.expire.store(true, Ordering::Relaxed);
        self.open.send_replace(true);
    }

    pub(crate) fn client(&self, inner: &Client) -> Client {
        let (inner, open, expire) = (inner.clone(), self.open.subscribe(), self.expire.clone());
        let namespace = inner.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (inner, mut open, expire) = (inner.clone(), open.clone(), expire.clone());
            async move {
                if !*open.borrow() {
                    return Err(Box::<dyn std::error::Error + Send + Sync>::from("the connection is cut"));
                }
                if is_resumed_watch(&request) && expire.swap(false, Ordering::Relaxed) {
                    return Ok(expired());
                }
                let response = inner.send(request).await?;
                Ok(response.map(|body| {
                    let cut = async move { drop(open.wait_for(|open| !open).await) };
                    StreamBody::new(frames(body).take_until(Box::pin(cut)).boxed())
                }))
            }
        });
        Client::new(service, namespace)
    }
}

fn is_resumed_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.contains("watch=true") && !query.contains("sendInitialEvents=true")
}

fn frames(body: Body) -> Frames {
    body.into_data_stream().map_ok(Frame::data).boxed()
}

/// Returns the response to an expired watch: an event with the status 410.
fn expired() -> Response<StreamBody<Frames>> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired",
        "message": "too old resource version", "code": 410});
    let event = json!({"type": "ERROR", "object": status});
    let body = Body::from(format!("{event}\n").into_bytes());
    Response::new(StreamBody::new(frames(body)))
}
