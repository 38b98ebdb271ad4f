//! Bodies of responses that the proxy reads as a whole.

use axum::body::{Body, Bytes};
use futures::{StreamExt, stream};
use http::{
    Response,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

/// Returns whether a response is in JSON that can be read as it is.
pub(crate) fn is_json(response: &Response<Body>) -> bool {
    let headers = response.headers();
    let is_json = headers.get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    is_json && !headers.contains_key(CONTENT_ENCODING)
}

/// Reads a body of at most `limit` bytes. A longer one comes back as it was.
pub(crate) async fn read_short(body: Body, limit: usize) -> Result<Result<Bytes, Body>, axum::Error> {
    let mut frames = body.into_data_stream();
    let mut read = Vec::new();
    while let Some(frame) = frames.next().await {
        read.extend_from_slice(&frame?);
        if read.len() > limit {
            let beginning = stream::iter([Ok(Bytes::from(read))]);
            return Ok(Err(Body::from_stream(beginning.chain(frames))));
        }
    }
    Ok(Ok(read.into()))
}
