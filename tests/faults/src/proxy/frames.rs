//! The frames of a watch: one JSON document a line. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::token::Token;

/// Puts lines together again that come in pieces.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// The lines that are complete with this piece, each with its end.
    pub fn take_in(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
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

/// What a frame tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
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

impl Told {
    /// Reads a frame.
    pub fn read(line: &[u8]) -> Option<Self> {
        let Frame { event, object } = serde_json::from_slice(line).ok()?;
        let Metadata { namespace, name, resource_version } = object.metadata;
        Some(Self { event, namespace, name, version: resource_version })
    }

    /// The run that the object belongs to.
    pub fn token(&self) -> Option<Token> {
        Token::of(&self.namespace, &self.name)
    }
}

/// A frame with this object.
pub fn frame(event: &str, object: &Value) -> Vec<u8> {
    line(&json!({ "type": event, "object": object }))
}

/// The frame by which an API server says that it no longer knows the resource version.
pub fn expired() -> Vec<u8> {
    line(&json!({ "type": "ERROR", "object": status(410, "Expired", "too old resource version: 1 (2)") }))
}

/// A Status of a failure.
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
    fn lines_are_put_together_from_pieces() {
        let mut lines = Lines::default();
        assert_eq!(lines.take_in(b"one\ntw"), [b"one\n".to_vec()]);
        assert_eq!(lines.take_in(b"o"), [] as [Vec<u8>; 0]);
        assert_eq!(lines.take_in(b"\n\nthree\n"), [b"two\n".to_vec(), b"\n".to_vec(), b"three\n".to_vec()]);
    }

    #[test]
    fn a_frame_is_read() {
        let object = json!({ "metadata": { "namespace": "n", "name": "r000007", "resourceVersion": "9" } });
        let told = Told::read(&frame("ADDED", &object)).unwrap();
        assert_eq!((told.event.as_str(), told.version.as_str()), ("ADDED", "9"));
        assert_eq!(told.token(), Some(Token::nth(7)));
        assert_eq!(Told::read(&expired()).unwrap().event, "ERROR");
        assert_eq!(Told::read(b"garbage"), None);
    }
}
