//! What must be true of every request that the API server gets.
//!
//! It bears the credential of its user and no other, or it is a GET of a view, or of a cache, with the token
//! of the proxy. For the user of a client certificate, it bears the token of the proxy and impersonates the
//! user, who is none of the system.

use http::Version;
use percent_encoding::percent_decode_str;

use super::{ACCESS_REVIEWS, NAMESPACES, REVIEWS, STORAGE_CLASSES, TENANTS};
use crate::upstream::{CLIENT_CA, PROXY_TOKEN, Recorded};

/// What a test writes before each name in a client certificate that it presents.
pub(super) const IN_CERTIFICATE: &str = "in a client certificate: ";
const TENANT_LABEL: &str = "capsule.clastix.io/tenant";
/// Names that the token of the proxy can select.
const TENANT_NAMES: [&str; 3] = ["oil", "gas", "sun"];

/// Asserts that a request is within the guarantees. `sent` is everything that clients have sent.
#[track_caller]
pub(super) fn assert_met(request: &Recorded, sent: &[u8]) {
    let result = if request.is_of_cache() {
        of_cache(request)
    } else if !request.all("x-forwarded-for").is_empty() {
        of_user(request, sent)
    } else if [REVIEWS, ACCESS_REVIEWS].contains(&&*request.target) {
        of_review(request, sent)
    } else {
        of_view(request)
    };
    if let Err(broken) = result {
        panic!("{broken}: {request:?}");
    }
}

type Met = Result<(), &'static str>;

fn ensure(is_met: bool, otherwise: &'static str) -> Met {
    if is_met { Ok(()) } else { Err(otherwise) }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

fn is_of_identity(name: &str) -> bool {
    name == "authorization" || name == "sec-websocket-protocol" || name.starts_with("impersonate-")
}

/// The user and the groups are those of a client certificate.
fn has_identity_of_certificate(request: &Recorded, sent: &[u8]) -> Met {
    let names = ["impersonate-user", "impersonate-group", "impersonate-uid"].map(|name| request.all(name));
    let number = request.headers.iter().filter(|(name, _)| name.starts_with("impersonate-")).count();
    let is_known = number == names.iter().map(Vec::len).sum::<usize>() && names[0].len() == 1;
    ensure(is_known, "the identity is no user with groups")?;
    ensure(request.all("sec-websocket-protocol").is_empty(), "there is another credential")?;
    let is_presented = |value: &&[u8]| contains(sent, &[IN_CERTIFICATE.as_bytes(), value, b"\n"].concat());
    ensure(names.iter().flatten().all(is_presented), "nobody has presented this certificate")?;
    let is_of_system = names.iter().flatten().any(|value| value.starts_with(b"system:"));
    ensure(!is_of_system, "an identity of the system is impersonated")
}

/// Everything that says from whom a request is was sent by a client.
fn has_sent_identity(request: &Recorded, sent: &[u8]) -> Met {
    if request.is_by(PROXY_TOKEN) && !contains(sent, PROXY_TOKEN.as_bytes()) {
        return has_identity_of_certificate(request, sent);
    }
    let mut of_identity = request.headers.iter().filter(|(name, _)| is_of_identity(name));
    ensure(of_identity.all(|(_, value)| contains(sent, value)), "nobody has sent this credential")?;
    let tokens = request.all("sec-websocket-protocol");
    let tokens = tokens.into_iter().filter(|value| contains(value, b"base64url.bearer."));
    let number = request.all("authorization").len() + tokens.count();
    ensure(number == 1, "there is not exactly one credential")
}

fn of_user(request: &Recorded, sent: &[u8]) -> Met {
    has_sent_identity(request, sent)?;
    ensure(request.all("x-forwarded-for") == [b"127.0.0.1"], "the client is another one")?;
    let is_of_proxy = |name: &str| {
        name.starts_with("x-remote-")
            || name == "forwarded"
            || (name.starts_with("x-forwarded-") && name != "x-forwarded-for")
    };
    ensure(
        !request.headers.iter().any(|(name, _)| is_of_proxy(name)),
        "a header of trusted proxies went on",
    )?;
    let of_hop = ["keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer"];
    ensure(of_hop.iter().all(|name| request.all(name).is_empty()), "a header of the connection went on")?;
    ensure(request.trailers.is_empty(), "trailers went on")?;
    if request.is_upgrade() {
        let is_dedicated = request.alpn.as_deref() == Some("http/1.1");
        return ensure(is_dedicated, "the connection did not ask for HTTP/1.1");
    }
    ensure(request.version == Version::HTTP_2, "the version is not HTTP/2")?;
    let of_hop = ["connection", "transfer-encoding", "upgrade", "host"];
    ensure(of_hop.iter().all(|name| request.all(name).is_empty()), "a header of the connection went on")
}

fn of_review(request: &Recorded, sent: &[u8]) -> Met {
    has_sent_identity(request, sent)?;
    ensure(request.method == "POST" && request.version == Version::HTTP_2, "it is no review")?;
    let known = ["content-type", "accept", "content-length"];
    let is_known = |name: &str| is_of_identity(name) || known.contains(&name);
    ensure(request.headers.iter().all(|(name, _)| is_known(name)), "a review has a foreign header")
}

fn of_cache(request: &Recorded) -> Met {
    let (path, _) = request.path_and_query();
    let kinds = [
        "v1beta2/tenants",
        "v1beta2/tenantowners",
        "v1beta2/capsuleconfigurations",
        "v1beta1/proxysettings",
        "v1beta1/globalproxysettings",
    ];
    let is_list = kinds.iter().any(|kind| path == format!("/apis/capsule.clastix.io/{kind}"));
    let is_by_proxy = request.is_by(PROXY_TOKEN) && request.method == "GET";
    ensure(is_by_proxy && (is_list || request.target == CLIENT_CA), "it is no list of a cache")
}

fn of_view(request: &Recorded) -> Met {
    ensure(request.is_by(PROXY_TOKEN), "it has neither a client nor the token of the proxy")?;
    ensure(request.method == "GET" && request.version == Version::HTTP_2, "the method is not GET")?;
    ensure(request.body.is_empty() && request.trailers.is_empty(), "a view has a body")?;
    let mut names: Vec<_> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    ensure(names == ["accept", "audit-id", "authorization", "user-agent"], "a view has foreign headers")?;
    let (path, query) = request.path_and_query();
    let parameters: Vec<_> = query.split('&').collect();
    let of_selectors = parameters.iter().filter(|one| one.to_ascii_lowercase().starts_with("labelselector"));
    let selectors = of_selectors.count();
    match path {
        NAMESPACES if is_existence(query) => {
            let accept = request.all("accept");
            let is_metadata = accept.iter().all(|accept| contains(accept, b"PartialObjectMetadataList"));
            ensure(is_metadata, "more than metadata is read")
        }
        NAMESPACES => {
            ensure(selectors == 1, "there is not exactly one selector")?;
            let first = parameters.first().and_then(|one| one.strip_prefix("labelSelector="));
            let selector = percent_decode_str(first.unwrap_or_default()).decode_utf8_lossy().into_owned();
            ensure(begins_with_tenants(&selector), "the selector does not begin with Tenants")
        }
        "/api/v1/nodes" | "/api/v1/persistentvolumes" => {
            let of_rule = "labelSelector=tier%20in%20%28gold%29";
            let is_first = parameters.first().is_some_and(|first| first.starts_with(of_rule));
            ensure(selectors == 1 && is_first, "the selector is not that of a rule")
        }
        // The kinds of a group.
        "/api/v1" | "/apis/x.example/v1" => ensure(query.is_empty(), "it is no view"),
        TENANTS | STORAGE_CLASSES => {
            let has_pages = parameters.iter().any(|one| one.starts_with("limit="));
            ensure(selectors <= 1 && !has_pages, "a list by name has pages")
        }
        _ => {
            let name = path.strip_prefix(TENANTS).and_then(|rest| rest.strip_prefix('/'));
            let is_tenant = name.is_some_and(|name| TENANT_NAMES.contains(&name));
            let is_class = path.strip_prefix(STORAGE_CLASSES).is_some_and(|rest| rest.starts_with('/'));
            ensure((is_tenant || is_class) && query.is_empty(), "it is no view")
        }
    }
}

/// Returns whether a query asks whether one namespace exists. No user gets the response.
fn is_existence(query: &str) -> bool {
    let name = query.strip_prefix("fieldSelector=metadata.name%3D");
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_plain))
}

/// Returns whether a selector begins with Tenants, or with what nothing meets.
fn begins_with_tenants(selector: &str) -> bool {
    let impossible = format!("{TENANT_LABEL},!{TENANT_LABEL}");
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with(',');
    if let Some(rest) = selector.strip_prefix(&impossible) {
        return is_end(rest);
    }
    let values = selector.strip_prefix(&format!("{TENANT_LABEL} in (")).and_then(|rest| rest.split_once(')'));
    values.is_some_and(|(values, rest)| {
        values.split(',').all(|value| TENANT_NAMES.contains(&value)) && is_end(rest)
    })
}

#[test]
fn selectors_that_do_not_begin_with_tenants_are_found() {
    let label = TENANT_LABEL;
    for selector in
        [format!("{label} in (oil)"), format!("{label} in (gas,oil),a in (b)"), format!("{label},!{label}")]
    {
        assert!(begins_with_tenants(&selector), "{selector}");
    }
    for selector in [
        String::new(),
        "a".to_owned(),
        format!("a,{label} in (oil)"),
        format!("{label} in (x)"),
        format!("{label} in (oil)a"),
        label.to_owned(),
    ] {
        assert!(!begins_with_tenants(&selector), "{selector}");
    }
}
