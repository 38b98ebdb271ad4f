//! SHA-256 of contents.

use std::{fmt, str::FromStr};

use ring::digest::{Context, SHA256, digest};
use serde::{Deserialize, Serialize};

/// SHA-256 of a content. The text has 64 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum([u8; 32]);

/// Error of a text that is no checksum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a SHA-256: it has 64 hexadecimal digits in lower case")]
pub struct ParseChecksumError(String);

impl Checksum {
    /// Returns the checksum of a content.
    pub fn of(content: &[u8]) -> Self {
        Self::from_digest(digest(&SHA256, content).as_ref())
    }

    fn from_digest(digest: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(digest).for_each(|(byte, digest)| *byte = *digest);
        Self(bytes)
    }
}

/// Computes a checksum from pieces.
pub(crate) struct Hasher(Context);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(self) -> Checksum {
        Checksum::from_digest(self.0.finish().as_ref())
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Checksum {
    type Err = ParseChecksumError;

    fn from_str(text: &str) -> Result<Self, ParseChecksumError> {
        parse(text).ok_or_else(|| ParseChecksumError(text.chars().take(80).collect()))
    }
}

fn parse(text: &str) -> Option<Checksum> {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 64 || !text.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(Checksum(bytes))
}

impl TryFrom<String> for Checksum {
    type Error = ParseChecksumError;

    fn try_from(text: String) -> Result<Self, ParseChecksumError> {
        text.parse()
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> Self {
        checksum.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_that_of_sha256sum() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Checksum::of(b"abc").to_string(), text);
        assert_eq!(text.parse(), Ok(Checksum::of(b"abc")));
        for text in ["", &text[1..], &text.to_uppercase(), &text.replace('b', "é")] {
            assert!(text.parse::<Checksum>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn pieces_give_the_checksum_of_the_whole(content: Vec<u8>, at: prop::sample::Index) {
            let (first, second) = content.split_at(at.index(content.len() + 1));
            let mut hasher = Hasher::new();
            hasher.update(first);
            hasher.update(second);
            prop_assert_eq!(hasher.finish(), Checksum::of(&content));
        }
    }
}
