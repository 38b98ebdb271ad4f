//! Watch frames: one JSON document per line. Pure functions.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::token::Token;

/// Assembles lines from chunks.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Adds a chunk. Returns the completed lines, including line ends.
    pub fn push(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(part);
            if part.ends_with(b"\n") {
                lines.push(std::mem::take(&mut self.partial));
            }
        }
        lines
    }
}

/// Content of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameInfo {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`
    pub event: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The resource version of the object.
    pub version: String,
}

#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    event: String,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
}

impl FrameInfo {
    /// Parses a frame.
    pub fn read(line: &[u8]) -> Option<Self> {
        let Frame { event, object } = serde_json::from_slice(line).ok()?;
        let Metadata { namespace, name, resource_version } = object.metadata;
        Some(Self { event, namespace, name, version: resource_version })
    }

    /// Returns the run that the object belongs to.
    pub fn token(&self) -> Option<Token> {
        Token::of(&self.namespace, &self.name)
    }
}

/// Builds a frame.
pub fn frame(event: &str, object: &Value) -> Vec<u8> {
    line(&json!({ "type": event, "object": object }))
}

/// Builds the frame for an expired resource version.
pub fn expired() -> Vec<u8> {
    line(&json!({ "type": "ERROR", "object": status(410, "Expired", "too old resource version: 1 (2)") }))
}

/// Builds a Status for a failure.
pub fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": message, "reason": reason, "code": code,
    })
}

fn line(document: &Value) -> Vec<u8> {
    let mut line = document.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembles_lines_from_chunks() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"one\ntw"), [b"one\n".to_vec()]);
        assert_eq!(lines.push(b"o"), [] as [Vec<u8>; 0]);
        assert_eq!(lines.push(b"\n\nthree\n"), [b"two\n".to_vec(), b"\n".to_vec(), b"three\n".to_vec()]);
    }

    #[test]
    fn parses_frames() {
        let object = json!({ "metadata": { "namespace": "n", "name": "r000007", "resourceVersion": "9" } });
        let info = FrameInfo::read(&frame("ADDED", &object)).unwrap();
        assert_eq!((info.event.as_str(), info.version.as_str()), ("ADDED", "9"));
        assert_eq!(info.token(), Some(Token::nth(7)));
        assert_eq!(FrameInfo::read(&expired()).unwrap().event, "ERROR");
        assert_eq!(FrameInfo::read(b"garbage"), None);
    }
}
