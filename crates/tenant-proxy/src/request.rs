//! Requests of users: which are refused before anything is sent, and with which headers the others go on.

use std::net::IpAddr;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri, Version,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_LENGTH, FORWARDED, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
        SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};

/// Prefix of the headers with which a user acts as somebody else.
pub(crate) const IMPERSONATE: &str = "impersonate-";
/// Prefixes of headers with which proxies that the API server trusts name a user, or a client.
const OF_PROXIES: [&str; 2] = ["x-remote-", "x-forwarded-"];
/// The address of the client, which the API server writes into its audit log.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Headers that apply to one connection (RFC 9110, section 7.6.1), beside those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// Headers that a request has at most once.
const SINGLE: [HeaderName; 5] = [AUTHORIZATION, HOST, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE];
/// Prefix of the websocket subprotocol that contains a token.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Why a request is refused. Nothing is sent to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The version is too old for a proxy.
    #[error("HTTP/1.0 is not supported; use HTTP/1.1 or HTTP/2")]
    Version,
    /// The method makes no sense through this proxy.
    #[error("the methods CONNECT and TRACE are not supported")]
    Method,
    /// The target is another host.
    #[error("the request is for another host than its Host header says")]
    Host,
    /// There is no Host header, which HTTP/1.1 requires.
    #[error("the request has no Host header")]
    NoHost,
    /// A header that must be there once is there twice.
    #[error("a header that can have one value is there twice")]
    Repeated,
    /// The length of the body is given in two ways.
    #[error("the request has both Content-Length and Transfer-Encoding")]
    Length,
    /// The transfer encoding is not one that this proxy reads.
    #[error("the only transfer encoding is chunked")]
    Encoding,
    /// A header of the identity would be removed on the way.
    #[error("Connection must not name Authorization or Impersonate headers")]
    Connection,
    /// The request has a client certificate and a token, or acts as somebody else.
    #[error(
        "a request with a client certificate must not have a token, and must not impersonate; use one of them"
    )]
    TwoCredentials,
    /// A header has characters that are no text.
    #[error("a header has control characters")]
    Characters,
}

/// Why a request has no usable credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// There are none.
    #[error("the request has no bearer token; add a user with a token to the kubeconfig")]
    Missing,
    /// They are of another kind, or malformed.
    #[error("the request needs exactly one bearer token")]
    Malformed,
}

/// Checks a request.
///
/// # Errors
/// Returns why it must not go on.
pub fn check(method: &Method, uri: &Uri, version: Version, headers: &HeaderMap) -> Result<(), Refusal> {
    if version < Version::HTTP_11 {
        return Err(Refusal::Version);
    }
    if matches!(*method, Method::CONNECT | Method::TRACE) {
        return Err(Refusal::Method);
    }
    if SINGLE.iter().any(|name| headers.get_all(name).iter().count() > 1) {
        return Err(Refusal::Repeated);
    }
    // The impersonated user is one.
    let users = ["impersonate-user", "impersonate-uid"];
    if users.iter().any(|name| headers.get_all(*name).iter().count() > 1) {
        return Err(Refusal::Repeated);
    }
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
    if authority.is_some_and(|authority| host.is_some_and(|host| !host.eq_ignore_ascii_case(authority))) {
        return Err(Refusal::Host);
    }
    if headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
        return Err(Refusal::Length);
    }
    let encoding = headers.get(TRANSFER_ENCODING).map(HeaderValue::as_bytes);
    if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case(b"chunked")) {
        return Err(Refusal::Encoding);
    }
    if named_by_connection(headers).any(|name| is_identity(&name)) {
        return Err(Refusal::Connection);
    }
    let is_text = |value: &HeaderValue| value.as_bytes().iter().all(|byte| *byte >= b' ' && *byte != 0x7f);
    if !headers.values().all(is_text) {
        return Err(Refusal::Characters);
    }
    if version == Version::HTTP_11 && host.is_none() { Err(Refusal::NoHost) } else { Ok(()) }
}

/// Checks that a request has exactly one token: in the header, or in a subprotocol of a websocket. The API
/// server reads the token.
///
/// # Errors
/// Returns an error if it has none, more than one, or other credentials.
pub fn check_credentials(headers: &HeaderMap) -> Result<(), CredentialError> {
    let values: Vec<_> = headers.get_all(AUTHORIZATION).iter().collect();
    let tokens: Vec<_> = token_protocols(headers).collect();
    match (values.as_slice(), tokens.as_slice()) {
        ([], []) => Err(CredentialError::Missing),
        ([value], []) if is_bearer(value) => Ok(()),
        ([], [token]) if !token.is_empty() && headers.contains_key(UPGRADE) => Ok(()),
        _ => Err(CredentialError::Malformed),
    }
}

/// Returns whether a websocket has a token in a subprotocol.
pub(crate) fn has_token_protocol(headers: &HeaderMap) -> bool {
    token_protocols(headers).next().is_some()
}

/// Returns the tokens in the subprotocols of a websocket.
fn token_protocols(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let protocols = listed(headers, &SEC_WEBSOCKET_PROTOCOL);
    protocols.filter_map(|protocol| protocol.strip_prefix(TOKEN_PROTOCOL).map(str::to_owned))
}

/// Returns the headers of a request as the API server gets them from the user: all but those for this
/// connection, and those with which a proxy names a user or a client.
pub fn forwarded(headers: &HeaderMap, peer: IpAddr) -> HeaderMap {
    let named: Vec<_> = named_by_connection(headers).collect();
    let goes_on = |name: &HeaderName| {
        let is_of_proxy = OF_PROXIES.iter().any(|prefix| name.as_str().starts_with(prefix));
        let is_of_hop = HOP_BY_HOP.contains(name) || named.iter().any(|named| named == name.as_str());
        !is_of_proxy && !is_of_hop && name != FORWARDED && name != HOST
    };
    let mut forwarded: HeaderMap = headers
        .iter()
        .filter(|(name, _)| goes_on(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // An address is always a valid value.
    if let Ok(peer) = HeaderValue::from_str(&peer.to_string()) {
        forwarded.insert(X_FORWARDED_FOR, peer);
    }
    forwarded
}

/// Returns the headers of a response as the user gets them: all but those of the connection to the API
/// server.
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<_> = named_by_connection(headers).collect();
    let is_of_hop =
        |name: &HeaderName| HOP_BY_HOP.contains(name) || named.iter().any(|named| named == name.as_str());
    headers
        .iter()
        .filter(|(name, _)| !is_of_hop(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the names in `Connection`, in lower case.
fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = String> {
    listed(headers, &CONNECTION).map(|name| name.to_ascii_lowercase())
}

/// Returns the elements of a header that is a list. Those that are not text stay in it.
fn listed(headers: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> {
    let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    values.flat_map(|value| value.split(',').map(|one| one.trim().to_owned()).collect::<Vec<_>>())
}

fn is_identity(name: &str) -> bool {
    name == AUTHORIZATION.as_str() || name == SEC_WEBSOCKET_PROTOCOL.as_str() || name.starts_with(IMPERSONATE)
}

/// Returns whether a value is `Bearer` and one token.
fn is_bearer(value: &HeaderValue) -> bool {
    let Some((scheme, token)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
        return false;
    };
    let is_token = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.bytes().all(is_token)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Returns headers from lines.
    pub(crate) fn headers(lines: &[&str]) -> HeaderMap {
        let parsed = lines.iter().map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.trim().as_bytes()).unwrap())
        });
        parsed.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::{testing::headers, *};

    fn checked(lines: &[&str]) -> Result<(), Refusal> {
        check(&Method::GET, &"/api".parse().unwrap(), Version::HTTP_11, &headers(lines))
    }

    #[test]
    fn malformed_requests_are_refused() {
        for (lines, refusal) in [
            (&["Host: a", "Host: b"][..], Refusal::Repeated),
            (&["Authorization: Bearer a", "Authorization: Bearer b"], Refusal::Repeated),
            (&["Impersonate-User: a", "Impersonate-User: b"], Refusal::Repeated),
            (&["Content-Length: 1", "Content-Length: 1"], Refusal::Repeated),
            (&["Content-Length: 1", "Transfer-Encoding: chunked"], Refusal::Length),
            (&["Transfer-Encoding: chunked, identity"], Refusal::Encoding),
            (&["Transfer-Encoding: gzip"], Refusal::Encoding),
            (&["Connection: Authorization"], Refusal::Connection),
            (&["Connection: close, Impersonate-User"], Refusal::Connection),
            (&["Connection: close", "Connection: x, IMPERSONATE-Extra-scopes"], Refusal::Connection),
            (&["X: a\tb"], Refusal::Characters),
            (&["Connection: close"], Refusal::NoHost),
        ] {
            assert_eq!(checked(lines), Err(refusal), "{lines:?}");
        }
        assert_eq!(checked(&["Host: a", "Connection: keep-alive", "Impersonate-User: bob"]), Ok(()));
    }

    #[test]
    fn other_hosts_old_versions_and_tunnels_are_refused() {
        let host = headers(&["Host: proxy.example"]);
        let check = |method, uri: &str, version| check(&method, &uri.parse().unwrap(), version, &host);
        let with = |uri: &str| check(Method::GET, uri, Version::HTTP_11);
        assert_eq!(with("https://elsewhere.example/api"), Err(Refusal::Host));
        assert_eq!(with("https://PROXY.example/api"), Ok(()));
        assert_eq!(check(Method::GET, "/api", Version::HTTP_10), Err(Refusal::Version));
        assert_eq!(check(Method::CONNECT, "elsewhere.example:443", Version::HTTP_11), Err(Refusal::Method));
        assert_eq!(check(Method::TRACE, "/api", Version::HTTP_2), Err(Refusal::Method));
    }

    #[test]
    fn exactly_one_token_is_required() {
        let token = "Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.YQ";
        let two = "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ, \
                   base64url.bearer.authorization.k8s.io.Yg";
        let upgrade = "Upgrade: websocket";
        for lines in
            [&["Authorization: Bearer a.b-c_d~+/="][..], &["authorization: bearer a"], &[token, upgrade]]
        {
            assert_eq!(check_credentials(&headers(lines)), Ok(()), "{lines:?}");
        }
        for lines in [&[][..], &["Sec-WebSocket-Protocol: v5.channel.k8s.io", upgrade]] {
            assert_eq!(check_credentials(&headers(lines)), Err(CredentialError::Missing), "{lines:?}");
        }
        for lines in [
            &["Authorization: Bearer"][..],
            &["Authorization: Bearer "],
            &["Authorization: Bearer  a"],
            &["Authorization: Bearer a b"],
            &["Authorization: Bearer a,Bearer"],
            &["Authorization: Basic YTpi"],
            &["Authorization: a"],
            &["Authorization: "],
            &["Authorization: Bearer a", token, upgrade],
            &[two, upgrade],
            &[token],
        ] {
            assert_eq!(check_credentials(&headers(lines)), Err(CredentialError::Malformed), "{lines:?}");
        }
    }

    #[test]
    fn identity_goes_on_and_headers_of_proxies_do_not() {
        let sent = headers(&[
            "Host: proxy.example",
            "Authorization: Bearer a",
            "Impersonate-User: bob",
            "Impersonate-Extra-scopes: x",
            "Audit-ID: 1",
            "Accept: application/json",
            "Accept: text/plain",
            "X-Remote-User: admin",
            "X-Remote-Group: system:masters",
            "X-Forwarded-For: 10.0.0.1",
            "X-Forwarded-Client-Cert: x",
            "Forwarded: for=10.0.0.1",
            "Connection: close, X-Mine",
            "X-Mine: 1",
            "Keep-Alive: Authorization",
            "Proxy-Connection: Authorization",
            "TE: trailers",
            "Transfer-Encoding: chunked",
            "Upgrade: websocket",
        ]);
        let forwarded = forwarded(&sent, Ipv4Addr::new(192, 0, 2, 7).into());
        let mut lines: Vec<_> =
            forwarded.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "accept: application/json",
                "accept: text/plain",
                "audit-id: 1",
                "authorization: Bearer a",
                "impersonate-extra-scopes: x",
                "impersonate-user: bob",
                "x-forwarded-for: 192.0.2.7",
            ]
        );
    }
}
