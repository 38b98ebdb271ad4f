//! The client of one watch.

use std::{sync::Arc, time::Duration};

use futures::{Stream, stream};
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::{Client, client::Body};
use tokio::time::timeout;
use tower::{BoxError, service_fn};

use super::watch::WatchHandler;
use crate::request_info::RequestInfo;

/// Timeout until a response begins. The API server ends requests that are no watch after 60 s. Without a timeout,
/// an API server that accepts connections and does not respond would leave the cache as it is forever.
const TIMEOUT: Duration = Duration::from_secs(65);

/// Time without anything from an open watch, after which its connection counts as dead. The API server sends a
/// bookmark about once a minute.
const SILENCE: Duration = Duration::from_secs(75);

/// Returns a client like `client` that tells `handler` when a watch is requested and open, and that ends requests
/// whose response does not begin. A response that is silent ends: a watch as if its time were over, and a list in the
/// middle of an object, which is an error.
pub(super) fn watch_client(client: &Client, handler: Arc<dyn WatchHandler>) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = service_fn(move |request: Request<Body>| {
        let (client, handler) = (client.clone(), handler.clone());
        async move {
            handler.record_request();
            let is_watch = RequestInfo::of(&request).is_watch();
            let response = timeout(TIMEOUT, client.send(request)).await;
            let response = response
                .map_err(|_| format!("the API server did not respond within {} s", TIMEOUT.as_secs()))??;
            if is_watch && response.status().is_success() {
                handler.record_open();
            }
            Ok::<_, BoxError>(response.map(until_silent))
        }
    });
    Client::new(service, namespace)
}

/// Returns a body that ends when nothing has come for a while.
fn until_silent<B: http_body::Body + Unpin>(
    body: B,
) -> StreamBody<impl Stream<Item = Result<Frame<B::Data>, B::Error>>> {
    StreamBody::new(stream::unfold(body, async |mut body| {
        let frame = timeout(SILENCE, body.frame()).await.ok()??;
        Some((frame, body))
    }))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use http::Response;
    use kube::runtime::watcher::Event;
    use parking_lot::Mutex;

    use super::*;
    use crate::informer::raw::{DecodeError, RawObject};

    #[derive(Default)]
    struct Recorder(Mutex<Vec<&'static str>>);

    impl WatchHandler for Recorder {
        fn apply(&self, _: Option<&str>, _: Event<RawObject>) -> Result<(), DecodeError> {
            Ok(())
        }

        fn set_forbidden(&self, _: Option<&str>, _: bool) {}

        fn set_failed(&self, _: bool) {}

        fn record_request(&self) {
            self.0.lock().push("request");
        }

        fn record_open(&self) {
            self.0.lock().push("open");
        }
    }

    /// Sends a GET to an API server that returns this status, or nothing. Returns what was recorded, and the error.
    async fn send(path: &str, status: Option<u16>) -> (Vec<&'static str>, String) {
        let api_server = service_fn(move |_: Request<Body>| async move {
            match status {
                Some(status) => Ok::<_, BoxError>(Response::builder().status(status).body(Body::empty())?),
                None => pending().await,
            }
        });
        let handler = Arc::<Recorder>::default();
        let client = watch_client(&Client::new(api_server, "default"), handler.clone());
        let sent = client.send(Request::get(path).body(Body::empty()).unwrap()).await;
        let recorded = handler.0.lock().clone();
        (recorded, sent.err().map(|error| crate::error::chain(&error)).unwrap_or_default())
    }

    #[tokio::test(start_paused = true)]
    async fn silent_watch_ends() {
        let began = tokio::time::Instant::now();
        let frames = stream::unfold(0, async |sent| {
            let pause = if sent < 3 { SILENCE / 2 } else { Duration::MAX };
            tokio::time::sleep(pause).await;
            Some((Body::from(b"{}".to_vec()).frame().await?, sent + 1))
        });
        let body = until_silent(StreamBody::new(Box::pin(frames)));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "{}{}{}");
        assert_eq!(began.elapsed(), SILENCE / 2 * 3 + SILENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn watch_is_open_when_it_is_accepted() {
        let (watch, list) = ("/api/v1/pods?watch=true", "/api/v1/pods");
        assert_eq!(send(watch, Some(200)).await.0, ["request", "open"]);
        assert_eq!(send(watch, Some(403)).await.0, ["request"]);
        assert_eq!(send(list, Some(200)).await.0, ["request"]);
        for path in [watch, list] {
            let (recorded, error) = send(path, None).await;
            assert_eq!(recorded, ["request"]);
            assert!(error.contains("did not respond within 65 s"), "{error}");
        }
    }
}
