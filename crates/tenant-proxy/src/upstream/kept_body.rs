//! Short bodies of requests, kept so that they can be sent again.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, Bytes, HttpBody};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::UpstreamError;
use crate::short_body::read_short;

/// Bytes of the longest body that is kept. Most manifests are shorter.
const MAX_BYTES: usize = 64 << 10;
/// Bytes of all bodies that are kept at once.
const MAX_TOTAL_BYTES: usize = 32 << 20;
/// Timeout of reading a body that is kept. The API server has the same for requests.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Memory for kept bodies.
#[derive(Clone)]
pub(super) struct KeptBodies(Arc<Semaphore>);

/// A body that can be sent several times.
pub(super) struct KeptBody {
    bytes: Bytes,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Default for KeptBodies {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_TOTAL_BYTES)))
    }
}

impl KeptBodies {
    /// Reads a body, if its length is known, short, and there is memory for it. Returns any other one as it was.
    ///
    /// # Errors
    /// Returns an error if the body breaks off or is too slow.
    pub(super) async fn keep(&self, body: Body) -> Result<Result<KeptBody, Body>, UpstreamError> {
        let length = body.size_hint().exact().and_then(|length| u32::try_from(length).ok());
        let memory = length
            .filter(|length| *length as usize <= MAX_BYTES)
            .and_then(|length| self.0.clone().try_acquire_many_owned(length).ok());
        let Some(memory) = memory else { return Ok(Err(body)) };
        let read = timeout(READ_TIMEOUT, read_short(body, MAX_BYTES))
            .await
            .map_err(|_| UpstreamError::SlowRequest(READ_TIMEOUT))?
            .map_err(UpstreamError::BrokenRequest)?;
        Ok(read.map(|bytes| KeptBody { bytes, _memory: Some(memory) }))
    }
}

impl KeptBody {
    /// Returns the body of a request without one.
    pub(super) fn empty() -> Self {
        Self { bytes: Bytes::new(), _memory: None }
    }

    /// Returns the body, to be sent.
    pub(super) fn body(&self) -> Body {
        Body::from(self.bytes.clone())
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::{BodyExt, Full};

    use super::*;

    /// A body that says its length and never ends.
    struct Endless(u64);

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
            std::task::Poll::Pending
        }

        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(self.0)
        }
    }

    fn body(length: usize) -> Body {
        Body::new(Full::new(Bytes::from(vec![7; length])))
    }

    async fn length(body: Body) -> usize {
        body.collect().await.unwrap().to_bytes().len()
    }

    #[tokio::test]
    async fn short_body_can_be_sent_again() {
        let kept = KeptBodies::default().keep(body(MAX_BYTES)).await.unwrap().ok().unwrap();
        assert_eq!((length(kept.body()).await, length(kept.body()).await), (MAX_BYTES, MAX_BYTES));
    }

    #[tokio::test]
    async fn long_body_and_body_of_unknown_length_are_not_read() {
        let bodies = KeptBodies::default();
        let long = bodies.keep(body(MAX_BYTES + 1)).await.unwrap().err().unwrap();
        assert_eq!(length(long).await, MAX_BYTES + 1);
        let unknown = Body::from_stream(stream::iter([Ok::<_, axum::Error>(Bytes::from_static(b"a"))]));
        assert_eq!(length(bodies.keep(unknown).await.unwrap().err().unwrap()).await, 1);
    }

    #[tokio::test]
    async fn memory_is_bounded_and_returned() {
        let bodies = KeptBodies::default();
        let mut kept = Vec::new();
        while let Ok(body) = bodies.keep(body(MAX_BYTES)).await.unwrap() {
            kept.push(body);
        }
        assert_eq!(kept.len(), MAX_TOTAL_BYTES / MAX_BYTES);
        assert!(bodies.keep(Body::empty()).await.unwrap().is_ok());
        kept.pop();
        assert!(bodies.keep(body(1)).await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_is_refused_and_frees_its_memory() {
        let bodies = KeptBodies::default();
        let slow = bodies.keep(Body::new(Endless(10))).await.err().unwrap();
        assert_eq!(slow.to_string(), "the body of the request did not arrive within 60 s");
        assert_eq!(bodies.0.available_permits(), MAX_TOTAL_BYTES);
    }
}
