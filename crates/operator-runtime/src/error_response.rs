//! Error responses whose body is a `Status`, as those of the API server.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
};
use serde_json::{Value, json};

/// Response to a request that a server rejects.
#[derive(Debug)]
pub struct ErrorResponse {
    /// Status code.
    pub status: StatusCode,
    /// Message to the user.
    pub message: String,
}

impl ErrorResponse {
    /// Creates a response.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// Returns the `Status`.
    pub fn body(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "code": self.status.as_u16(),
            "reason": self.reason(),
            "message": self.message,
        })
    }

    fn reason(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "Unauthorized",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::GONE => "Expired",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "UnsupportedMediaType",
            StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
            StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => "Timeout",
            status if status.is_client_error() => "BadRequest",
            _ => "InternalError",
        }
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response<Body> {
        json_response(self.status, self.body().to_string().into_bytes())
    }
}

/// Returns a response with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
