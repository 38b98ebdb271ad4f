//! Connections of watches, which can be dead without anybody noticing.

use std::{ops::RangeInclusive, time::Duration};

use futures::{Stream, stream};
use http::{Request, Response, Uri};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::{Client, client::Body};
use tokio::time::timeout;
use tower::{BoxError, service_fn};

/// Duration of a watch in seconds, as its parameters say it. A [`watch_client`] asks for a longer one.
///
/// kube accepts none longer, because its client ends responses that are silent for that time.
pub const WATCH_SECONDS: u32 = 290;

/// Durations of the watches of a [`watch_client`], in seconds. They differ, so that not all begin again at the same
/// time. The API server would choose 30 minutes to an hour.
const DURATIONS: RangeInclusive<u64> = 900..=1800;

/// Timeout until a response begins. The API server ends requests that are no watch after 60 s. Without a timeout,
/// an API server that accepts connections and does not respond would leave a cache as it is forever.
const TIMEOUT: Duration = Duration::from_secs(65);

/// Time without anything from an open watch, after which its connection counts as dead. The API server sends a
/// bookmark about once a minute.
const SILENCE: Duration = Duration::from_secs(75);

type BodyError = <Body as http_body::Body>::Error;
type Data = <Body as http_body::Body>::Data;

/// Returns a client like `client` that ends requests whose response does not begin within 65 s. A response that is
/// silent for 75 s ends: a watch as if its time were over, and a list in the middle of an object, which is an error.
///
/// A watch of [`WATCH_SECONDS`] lasts 15 to 30 minutes instead: a dead connection is noticed before.
pub fn watch_client(client: &Client) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = service_fn(move |request| {
        let client = client.clone();
        async move { send(&client, request).await }
    });
    Client::new(service, namespace)
}

/// Sends a request as a [`watch_client`] does.
pub(crate) async fn send(
    client: &Client,
    request: Request<Body>,
) -> Result<Response<StreamBody<impl Stream<Item = Result<Frame<Data>, BodyError>> + use<>>>, BoxError> {
    let (mut head, body) = request.into_parts();
    head.uri = prolonged(head.uri, fastrand::u64(DURATIONS));
    let response = timeout(TIMEOUT, client.send(Request::from_parts(head, body))).await;
    let response =
        response.map_err(|_| format!("the API server did not respond within {} s", TIMEOUT.as_secs()))??;
    Ok(response.map(until_silent))
}

/// Returns the address of a watch that lasts for this number of seconds. Another address stays as it is.
fn prolonged(uri: Uri, seconds: u64) -> Uri {
    let asked = format!("timeoutSeconds={WATCH_SECONDS}");
    let address = uri.to_string();
    if !address.contains(&asked) {
        return uri;
    }
    address.replace(&asked, &format!("timeoutSeconds={seconds}")).parse().unwrap_or(uri)
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
    use super::*;

    #[test]
    fn only_watches_last_longer() {
        let of = |address: &str| prolonged(address.parse().unwrap(), 1200).to_string();
        let watch = "/api/v1/pods?&watch=true&timeoutSeconds=290&allowWatchBookmarks=true";
        assert_eq!(of(watch), "/api/v1/pods?&watch=true&timeoutSeconds=1200&allowWatchBookmarks=true");
        for other in ["/api/v1/pods?limit=100", "/api/v1/pods?watch=true&timeoutSeconds=60"] {
            assert_eq!(of(other), other);
        }
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
}
