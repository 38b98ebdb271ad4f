//! The end of a watch whose user sees other objects than before.
//!
//! An informer that loses its connection watches again from the last version that it saw, and would miss
//! older objects that became visible. An error `Expired` makes it list again.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::{Body, Bytes, HttpBody};
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use http_body::Frame;
use operator_core::protobuf::messages::{MAGIC, RawExtension, Status, TypeMeta, Unknown, WatchEvent};
use operator_runtime::error_response::ErrorResponse;
use prost::Message;
use serde_json::json;

/// Message of the error.
const MESSAGE: &str = "what the user may see has changed; list again";

/// How the events of a watch follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One event in each line.
    Json,
    /// Each event after its length, in four bytes.
    Protobuf,
}

impl Framing {
    /// Returns the framing of a content type, or of the first one of several.
    pub fn of(content_type: &str) -> Option<Self> {
        match content_type.split([';', ',']).next()?.trim() {
            "application/json" => Some(Self::Json),
            "application/vnd.kubernetes.protobuf" => Some(Self::Protobuf),
            _ => None,
        }
    }

    /// Returns the content type.
    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        })
    }

    /// Returns the response to a watch that cannot go on from its version. As the API server does, it is a
    /// watch with an error: clients list again, as they do not if the request fails.
    pub fn expired_watch(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.expired()));
        response.headers_mut().insert(CONTENT_TYPE, self.content_type());
        response
    }

    /// Returns the event with the error.
    pub fn expired(self) -> Bytes {
        match self {
            Self::Json => {
                let object = ErrorResponse::new(StatusCode::GONE, MESSAGE).body();
                format!("{}\n", json!({"type": "ERROR", "object": object})).into()
            }
            Self::Protobuf => protobuf_event().into(),
        }
    }
}

fn protobuf_event() -> Vec<u8> {
    let status = Status {
        status: "Failure".to_owned(),
        message: MESSAGE.to_owned(),
        reason: "Expired".to_owned(),
        code: i32::from(StatusCode::GONE.as_u16()),
        details: None,
    };
    let types = TypeMeta { api_version: "v1".to_owned(), kind: "Status".to_owned() };
    let object = Unknown { types, raw: status.encode_to_vec() };
    let raw = [MAGIC, &object.encode_to_vec()].concat();
    let event = WatchEvent { kind: "ERROR".to_owned(), object: RawExtension { raw } }.encode_to_vec();
    // The event has a fixed size of some hundred bytes.
    let length = u32::try_from(event.len()).unwrap_or_default();
    [&length.to_be_bytes()[..], &event].concat()
}

/// Whether the bytes so far end with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Between two events.
    Between,
    /// In a line.
    Line,
    /// In a length, with the bytes of it so far.
    Length { read: u8, value: u32 },
    /// In an event, with the bytes that are left.
    Event(u32),
}

impl Position {
    fn after(self, framing: Framing, bytes: &[u8]) -> Self {
        match framing {
            Framing::Json => match bytes.last() {
                None => self,
                Some(b'\n') => Self::Between,
                Some(_) => Self::Line,
            },
            Framing::Protobuf => self.after_lengths(bytes),
        }
    }

    fn after_lengths(mut self, mut bytes: &[u8]) -> Self {
        while let Some((first, rest)) = bytes.split_first() {
            let (read, value) = match self {
                Self::Event(left) => {
                    let here = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    bytes = bytes.get(here..).unwrap_or_default();
                    // Not more than `left`.
                    let left = left - u32::try_from(here).unwrap_or(left);
                    self = if left == 0 { Self::Between } else { Self::Event(left) };
                    continue;
                }
                Self::Length { read, value } => (read, value),
                Self::Between | Self::Line => (0, 0),
            };
            let (read, value) = (read + 1, (value << 8) | u32::from(*first));
            bytes = rest;
            self = match (read, value) {
                (4, 0) => Self::Between,
                (4, length) => Self::Event(length),
                _ => Self::Length { read, value },
            };
        }
        self
    }
}

/// The body of a watch that ends with an error when `end` completes.
pub struct ExpiringWatch<F> {
    /// `None` after the end.
    body: Option<Body>,
    end: Pin<Box<F>>,
    is_ending: bool,
    framing: Framing,
    position: Position,
}

impl<F: Future<Output = ()>> ExpiringWatch<F> {
    /// Returns the body of a watch with these events.
    pub fn new(body: Body, framing: Framing, end: F) -> Self {
        let (is_ending, position) = (false, Position::Between);
        Self { body: Some(body), end: Box::pin(end), is_ending, framing, position }
    }
}

impl<F: Future<Output = ()>> HttpBody for ExpiringWatch<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.is_ending = self.is_ending || self.end.as_mut().poll(context).is_ready();
        if self.is_ending && self.position == Position::Between && self.body.take().is_some() {
            return Poll::Ready(Some(Ok(Frame::data(self.framing.expired()))));
        }
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if let Some(bytes) = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref) {
            self.position = self.position.after(self.framing, bytes);
        }
        Poll::Ready(frame)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use proptest::prelude::*;
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// A body whose frames the test sends.
    fn body() -> (mpsc::UnboundedSender<Bytes>, Body) {
        let (sender, mut receiver) = mpsc::unbounded_channel::<Bytes>();
        let stream = futures::stream::poll_fn(move |context| {
            receiver.poll_recv(context).map(|bytes| bytes.map(Ok::<_, std::convert::Infallible>))
        });
        (sender, Body::from_stream(stream))
    }

    async fn next(watch: &mut (impl HttpBody<Data = Bytes, Error = axum::Error> + Unpin)) -> Option<Bytes> {
        watch.frame().await.map(|frame| frame.unwrap().into_data().unwrap())
    }

    #[tokio::test]
    async fn error_follows_the_event_in_progress() {
        let ((sender, body), (end, ended)) = (body(), oneshot::channel::<()>());
        let mut watch = ExpiringWatch::new(body, Framing::Json, async { drop(ended.await) });
        sender.send("{\"type\":".into()).unwrap();
        assert_eq!(next(&mut watch).await.unwrap(), "{\"type\":");
        end.send(()).unwrap();
        sender.send("\"ADDED\"}\n".into()).unwrap();
        assert_eq!(next(&mut watch).await.unwrap(), "\"ADDED\"}\n");
        let event: serde_json::Value = serde_json::from_slice(&next(&mut watch).await.unwrap()).unwrap();
        assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &410.into()));
        assert_eq!(event["object"]["reason"], "Expired");
        assert!(next(&mut watch).await.is_none());
        assert!(sender.is_closed(), "the watch of the API server ends too");
    }

    #[tokio::test]
    async fn end_of_the_api_server_is_an_end() {
        let (sender, body) = body();
        let mut watch = ExpiringWatch::new(body, Framing::Json, std::future::pending());
        drop(sender);
        assert!(next(&mut watch).await.is_none());
    }

    #[test]
    fn event_in_protocol_buffers_has_its_length_and_the_status() {
        let event = protobuf_event();
        let (length, event) = event.split_at(4);
        assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, event.len());
        let event = WatchEvent::decode(event).unwrap();
        let object = event.object.raw;
        let object = Unknown::decode(object.strip_prefix(MAGIC).unwrap()).unwrap();
        let status = Status::decode(object.raw.as_slice()).unwrap();
        assert_eq!((event.kind.as_str(), status.code, status.reason.as_str()), ("ERROR", 410, "Expired"));
    }

    proptest! {
        /// However the bytes of events are cut, the position is between two events at the end of each.
        #[test]
        fn position_is_known_however_bytes_are_cut(
            lengths in prop::collection::vec(0_u32..700, 1..6),
            cuts in prop::collection::vec(1_usize..300, 1..20),
        ) {
            let mut bytes = Vec::new();
            let mut ends = vec![0];
            for length in lengths {
                bytes.extend(length.to_be_bytes());
                bytes.extend(vec![7; length as usize]);
                ends.push(bytes.len());
            }
            let (mut position, mut done) = (Position::Between, 0);
            for cut in cuts.iter().cycle() {
                let here = (done + cut).min(bytes.len());
                position = position.after(Framing::Protobuf, &bytes[done..here]);
                done = here;
                prop_assert_eq!(position == Position::Between, ends.contains(&done));
                if done == bytes.len() {
                    break;
                }
            }
        }
    }
}
