//! Responses of both servers.

use http_body_util::Full;
use hyper::{
    StatusCode,
    body::Bytes,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
};

pub(crate) type Response = hyper::Response<Full<Bytes>>;

/// Returns a response with one line of text.
pub(crate) fn text(status: StatusCode, line: &str) -> Response {
    response(status, "text/plain; charset=utf-8", format!("{line}\n").into())
}

/// Returns a response to a method that the path does not have.
pub(crate) fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, &format!("use the method {allowed}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Returns a response with a JSON document.
pub(super) fn json(document: Vec<u8>) -> Response {
    self::document("application/json", document.into())
}

/// Returns a response with a document.
pub(crate) fn document(content_type: &'static str, body: Bytes) -> Response {
    response(StatusCode::OK, content_type, body)
}

fn response(status: StatusCode, content_type: &'static str, body: Bytes) -> Response {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
