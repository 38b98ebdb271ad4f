//! The headers that say from whom a request is.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL},
};
use ring::digest::{Context, SHA256};

use crate::request::IMPERSONATE;

/// Digest of the headers that say from whom a request is: two requests with the same digest are from the
/// same user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credential([u8; 32]);

impl Credential {
    /// Returns the digest of the credential in headers. Each name and each value is counted with its
    /// length, so that no two lists of headers have the same bytes.
    pub fn of(headers: &HeaderMap) -> Self {
        // A websocket can have its token in a subprotocol.
        let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
        let protocols = protocols.map(|protocol| (&SEC_WEBSOCKET_PROTOCOL, protocol));
        let mut all: Vec<_> = of_identity(headers).chain(protocols).collect();
        // Stable: the order of the values of one name counts.
        all.sort_by_key(|(name, _)| name.as_str());
        let mut digest = Context::new(&SHA256);
        for (name, value) in all {
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                digest.update(&(part.len() as u64).to_be_bytes());
                digest.update(part);
            }
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.finish().as_ref());
        Self(bytes)
    }
}

/// Returns the headers that say from whom a request is.
pub fn of_identity(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    headers.iter().filter(|(name, _)| *name == AUTHORIZATION || name.as_str().starts_with(IMPERSONATE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::testing::headers;

    fn of(lines: &[&str]) -> Credential {
        Credential::of(&headers(lines))
    }

    #[test]
    fn same_credential_has_the_same_digest() {
        let first = of(&["Authorization: Bearer a", "Impersonate-User: bob", "Accept: text/plain"]);
        assert_eq!(first, of(&["impersonate-user: bob", "X-Other: 1", "authorization: Bearer a"]));
    }

    #[test]
    fn other_credentials_have_other_digests() {
        let token = "Authorization: Bearer a";
        let all = [
            of(&[]),
            of(&[token]),
            of(&["Authorization: Bearer ab"]),
            of(&[token, "Impersonate-User: bob"]),
            of(&[token, "Impersonate-User: bobby"]),
            of(&[token, "Impersonate-User:"]),
            of(&[token, "Impersonate-Uid: bob"]),
            of(&[token, "Impersonate-Group: a", "Impersonate-Group: b"]),
            of(&[token, "Impersonate-Group: b", "Impersonate-Group: a"]),
            of(&[token, "Impersonate-Group: ab"]),
            of(&[token, "Impersonate-Group: a, b"]),
            of(&["Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ"]),
            of(&["Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.Yg"]),
            of(&[token, "Impersonate-Extra-a: bc"]),
            of(&[token, "Impersonate-Extra-ab: c"]),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one), "{index}");
        }
    }
}
