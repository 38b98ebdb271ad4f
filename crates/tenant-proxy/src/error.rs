//! Why a request gets a response of the proxy instead of one of the API server.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header::RETRY_AFTER},
    response::IntoResponse,
};
use http::header::{CONNECTION, WWW_AUTHENTICATE};
use operator_runtime::error_response::ErrorResponse;

use crate::{
    client_certificate::CertificateError,
    list_options::NoPages,
    named_object::NamedObject,
    request::{CredentialError, Refusal},
    upstream::UpstreamError,
};

/// Why a request gets a response of the proxy.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// It is malformed, or not for a proxy.
    #[error("the proxy refuses this request: {0}")]
    Refused(#[from] Refusal),
    /// It has no credential that can be used.
    #[error("the proxy cannot tell who sends this request: {0}")]
    Credential(#[from] CredentialError),
    /// The proxy does not impersonate the user of its client certificate.
    #[error("the proxy does not forward this request: {0}")]
    Certificate(#[from] CertificateError),
    /// A namespace, or the namespace of an object, does not exist.
    #[error("{0} not found")]
    NotFound(NamedObject),
    /// The user has too many requests in progress.
    #[error("too many requests of this user are in progress; retry in a second")]
    TooMany,
    /// The proxy cannot tell yet, or not now, what the user owns.
    #[error("the proxy cannot show a view now: {0}; retry in a second")]
    NoView(String),
    /// The list has no further pages.
    #[error(transparent)]
    NoPages(#[from] NoPages),
    /// The API server did not respond.
    #[error("{0}; retry")]
    Upstream(#[from] UpstreamError),
    /// The response of the API server broke.
    #[error("the response of the API server cannot be read: {0}; retry")]
    Unreadable(String),
}

impl ProxyError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Refused(_) | Self::Upstream(UpstreamError::BrokenRequest(_)) => StatusCode::BAD_REQUEST,
            Self::Credential(_) | Self::Certificate(CertificateError::Ended) => StatusCode::UNAUTHORIZED,
            Self::Certificate(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::NoView(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoPages(_) => StatusCode::GONE,
            Self::Upstream(UpstreamError::Timeout(_)) => StatusCode::GATEWAY_TIMEOUT,
            Self::Upstream(UpstreamError::SlowRequest(_)) => StatusCode::REQUEST_TIMEOUT,
            Self::Upstream(_) | Self::Unreadable(_) => StatusCode::BAD_GATEWAY,
        }
    }
}

impl IntoResponse for ProxyError {
    fn into_response(self) -> Response<Body> {
        let mut response = ErrorResponse::new(self.status(), self.to_string()).into_response();
        let headers = response.headers_mut();
        match self {
            Self::TooMany | Self::NoView(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Self::Credential(_) => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // What follows on the connection cannot be trusted either.
            Self::Refused(_) => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Self::Certificate(_)
            | Self::NotFound(_)
            | Self::NoPages(_)
            | Self::Upstream(_)
            | Self::Unreadable(_) => {}
        }
        response
    }
}
