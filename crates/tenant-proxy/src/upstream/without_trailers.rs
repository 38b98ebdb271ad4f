//! A body without its trailers.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};

/// The data of a body. Its trailers are dropped: they could have the names of headers that are checked, and
/// the API server needs none.
pub(super) struct WithoutTrailers<B>(pub(super) B);

impl<B: Body + Unpin> Body for WithoutTrailers<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match ready!(Pin::new(&mut self.0).poll_frame(context)) {
            Some(Ok(frame)) if frame.is_trailers() => Poll::Ready(None),
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
