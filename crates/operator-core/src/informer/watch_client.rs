//! The client of one watch.

use std::sync::Arc;

use http::Request;
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

use super::watch::WatchHandler;
use crate::{protobuf::Protobuf, request_info::RequestInfo, watch_connection};

/// Returns a client that detects dead connections, as [`watch_connection::watch_client`], and tells `handler` when a
/// watch is requested and open. Watches are read in `format`, and lists as JSON.
pub(super) fn client_with_handler(
    client: &Client,
    handler: Arc<dyn WatchHandler>,
    format: Option<Protobuf>,
) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = service_fn(move |request: Request<Body>| {
        let (client, handler) = (client.clone(), handler.clone());
        async move {
            handler.record_request();
            let is_watch = RequestInfo::of(&request).is_watch();
            let send = async |request| watch_connection::send(&client, request).await;
            let response = match format.filter(|_| is_watch) {
                Some(format) => format.send(request, send).await?,
                None => send(request).await?.map(|body| body.map_err(BoxError::from).boxed_unsync()),
            };
            if is_watch && response.status().is_success() {
                handler.record_open();
            }
            Ok::<_, BoxError>(response)
        }
    });
    Client::new(service, namespace)
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
        let client = client_with_handler(&Client::new(api_server, "default"), handler.clone(), None);
        let sent = client.send(Request::get(path).body(Body::empty()).unwrap()).await;
        let recorded = handler.0.lock().clone();
        (recorded, sent.err().map(|error| crate::error::chain(&error)).unwrap_or_default())
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
