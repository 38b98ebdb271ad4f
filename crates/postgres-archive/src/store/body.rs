//! Body of an answer, with limits.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use object_store::client::HttpResponseBody;
use tokio::time::{Instant, Sleep, sleep};

use super::transport::TransportError;

/// Wraps the body of an answer: it fails after `limit` bytes, and `idle` after the last byte.
pub(super) fn bounded(body: Incoming, limit: usize, idle: Duration) -> HttpResponseBody {
    let body = Limited::new(IdleTimeout::new(body, idle), limit);
    HttpResponseBody::new(body.map_err(|error| TransportError::of(error.as_ref()).into()))
}

/// Body that fails when no frame arrives for a time.
struct IdleTimeout {
    body: Incoming,
    idle: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl IdleTimeout {
    fn new(body: Incoming, idle: Duration) -> Self {
        Self { body, idle, sleep: Box::pin(sleep(idle)) }
    }
}

impl Body for IdleTimeout {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        if let Poll::Ready(frame) = pin!(&mut self.body).poll_frame(cx) {
            let next = Instant::now() + self.idle;
            self.sleep.as_mut().reset(next);
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| TransportError::of(&error))));
        }
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(TransportError::timeout(self.idle))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
