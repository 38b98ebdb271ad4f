//! Error responses of webhooks. The body is a `Status`, which the API server returns to the client.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
};
use serde_json::json;

/// Response to a request that the webhook server rejects.
#[derive(Debug)]
pub(super) struct ErrorResponse {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    fn reason(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "Unauthorized",
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
        let status = json!({
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": self.status.as_u16(),
            "reason": self.reason(),
            "message": self.message,
        });
        json_response(self.status, status.to_string().into_bytes())
    }
}

/// Returns a response with a JSON body.
pub(super) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
