//! Responses in Protobuf, which take the API server and a client a fraction of the time of JSON.
//!
//! kube decodes JSON. A kind with a [`Protobuf`] format is requested in Protobuf, and the client converts its
//! responses into JSON with the few fields that controllers read. Only the types of Kubernetes itself have this
//! format; custom resources do not.

pub mod messages;
mod watch_stream;

use std::convert::Infallible;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{
    HeaderMap, HeaderValue, Request, Response,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body::Frame;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use messages::{MAGIC, Status, TypeMeta, Unknown};
use prost::{DecodeError, Message};
use serde::Serialize;
use tower::{BoxError, service_fn};
use watch_stream::WatchStream;

use crate::request_info::RequestInfo;

/// What a client accepts, as client-go does. The API server sends JSON for kinds without Protobuf.
const ACCEPTED: &str = "application/vnd.kubernetes.protobuf,application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";
/// Size limit of an object, in bytes. The API server accepts none above 3 MiB.
const MAX_OBJECT: usize = 16 << 20;

/// Body of a response that may have been converted.
pub(crate) type ConvertedBody = UnsyncBoxBody<Bytes, BoxError>;

/// The Protobuf format of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Protobuf {
    /// Converts a message with these types.
    to_json: fn(&TypeMeta, &[u8]) -> Result<Vec<u8>, BoxError>,
}

/// A message as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a, M> {
    api_version: &'a str,
    kind: &'a str,
    #[serde(flatten)]
    message: M,
}

impl Protobuf {
    /// Returns the format of a kind whose fields are those of `M`, which serializes as the API server does.
    /// Fields that `M` does not have are dropped.
    #[must_use]
    pub const fn of<M: Message + Default + Serialize>() -> Self {
        Self { to_json: to_json::<M> }
    }

    /// Sends a request that accepts Protobuf, and converts the response. `send` sends it.
    ///
    /// # Errors
    /// Returns the errors of `send`, and one for a response that is no object. The body of a watch returns one for an
    /// event that is none.
    pub(crate) async fn send<B>(
        self,
        mut request: Request<Body>,
        send: impl AsyncFnOnce(Request<Body>) -> Result<Response<B>, BoxError>,
    ) -> Result<Response<ConvertedBody>, BoxError>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let is_watch = RequestInfo::of(&request).is_watch();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        let response = send(request).await?;
        if !is_protobuf(response.headers()) {
            return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
        }
        let (mut head, body) = response.into_parts();
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        head.headers.remove(CONTENT_LENGTH);
        let body = if is_watch && head.status.is_success() {
            self.watch(body)
        } else {
            let object = Limited::new(body, MAX_OBJECT).collect().await?.to_bytes();
            let json = self.object_to_json(&object)?;
            Full::new(Bytes::from(json)).map_err(|never: Infallible| match never {}).boxed_unsync()
        };
        Ok(Response::from_parts(head, body))
    }

    /// Converts the events of a watch.
    fn watch<B>(self, body: B) -> ConvertedBody
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let frames = stream::unfold(Some((Box::pin(body), WatchStream::new(self))), async |state| {
            let (mut body, mut events) = state?;
            let lines = match body.frame().await? {
                Ok(frame) => frame.into_data().map_or(Ok(Vec::new()), |data| events.push(&data)),
                Err(error) => Err(error.into()),
            };
            let next = lines.is_ok().then_some((body, events));
            Some((lines.map(|lines| Frame::data(Bytes::from(lines))), next))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames.boxed()))
    }

    /// Converts an object, or the [`Status`] of a failed request.
    fn object_to_json(self, object: &[u8]) -> Result<Vec<u8>, BoxError> {
        let object = object.strip_prefix(MAGIC).ok_or("the API server sent an object that is no Protobuf")?;
        let Unknown { types, raw } = Unknown::decode(object)?;
        if types.kind == "Status" && types.api_version == "v1" {
            to_json::<Status>(&types, &raw)
        } else {
            (self.to_json)(&types, &raw)
        }
    }
}

fn to_json<M: Message + Default + Serialize>(types: &TypeMeta, message: &[u8]) -> Result<Vec<u8>, BoxError> {
    let message = M::decode(message).map_err(|error: DecodeError| {
        format!("cannot read a {} that the API server sent as Protobuf: {error}", types.kind)
    })?;
    Ok(serde_json::to_vec(&Typed { api_version: &types.api_version, kind: &types.kind, message })?)
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|media_type| media_type.as_bytes().starts_with(PROTOBUF.as_bytes()))
}

/// Returns a client like `client` for requests of one kind. It reads their responses as Protobuf, if the kind has
/// that format.
pub(crate) fn client_with(client: Client, format: Option<Protobuf>) -> Client {
    let Some(format) = format else { return client };
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { format.send(request, async |request| Ok(client.send(request).await?)).await }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests;
