//! The stream of a watch in Protobuf: each event has its length before it, as four bytes.

use prost::Message;
use tower::BoxError;
use tracing::warn;

use super::{MAX_OBJECT, Protobuf, messages::WatchEvent};

/// Converts a watch into JSON, with one event in each line.
pub(super) struct WatchStream {
    format: Protobuf,
    /// The begin of an event whose end has not come.
    partial: Vec<u8>,
}

impl WatchStream {
    pub(super) fn new(format: Protobuf) -> Self {
        Self { format, partial: Vec::new() }
    }

    /// Adds bytes of the stream. Returns the lines of the events that they complete.
    ///
    /// # Errors
    /// Returns an error for an event that is invalid or too large. The stream is of no use then. An object that is
    /// invalid is logged and skipped, as one that is invalid JSON.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, BoxError> {
        self.partial.extend_from_slice(bytes);
        let mut lines = Vec::new();
        let mut rest = self.partial.as_slice();
        while let Some((event, after)) = split_event(rest)? {
            self.convert(event, &mut lines)?;
            rest = after;
        }
        let converted = self.partial.len() - rest.len();
        self.partial.drain(..converted);
        Ok(lines)
    }

    fn convert(&self, event: &[u8], lines: &mut Vec<u8>) -> Result<(), BoxError> {
        let WatchEvent { kind, object } = WatchEvent::decode(event)?;
        let object = match self.format.object_to_json(&object.raw) {
            Ok(object) => object,
            Err(error) => {
                warn!(%error, "an object cannot be read and is left alone");
                return Ok(());
            }
        };
        lines.extend_from_slice(br#"{"type":"#);
        serde_json::to_writer(&mut *lines, &kind)?;
        lines.extend_from_slice(br#","object":"#);
        lines.extend_from_slice(&object);
        lines.extend_from_slice(b"}\n");
        Ok(())
    }
}

/// The first event, and the bytes after it.
type Split<'a> = (&'a [u8], &'a [u8]);

/// Splits off the first event, if it is complete.
fn split_event(bytes: &[u8]) -> Result<Option<Split<'_>>, BoxError> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length))?;
    if length > MAX_OBJECT {
        return Err(format!(
            "the API server sent a watch event of {length} bytes; at most {MAX_OBJECT} are read"
        )
        .into());
    }
    Ok(rest.split_at_checked(length))
}
