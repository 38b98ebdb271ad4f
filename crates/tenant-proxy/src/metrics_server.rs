//! Server of the metrics.
//!
//! The API server decides who may read them, by a SelfSubjectAccessReview with the credential of the client.
//! So the proxy needs no right to review tokens.

use std::sync::Arc;

use axum::{body::to_bytes, response::IntoResponse};
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use hyper::body::Incoming;
use operator_runtime::{error_response::ErrorResponse, metrics::OPEN_METRICS, server::Handler};

use crate::{
    authentication::Authentication,
    error::ProxyError,
    metrics::ProxyMetrics,
    request::check,
    self_review::is_allowed,
    upstream::{AsUser, UserRequest},
};

/// Path of the metrics.
const PATH: &str = "/metrics";
/// Most bytes of a response of the API server.
const MAX_BYTES: usize = 64 << 10;

/// Returns the handler of the metrics server.
pub(crate) fn handler(metrics: Arc<ProxyMetrics>, api_server: AsUser) -> Handler {
    Arc::new(move |request| {
        let (metrics, api_server) = (metrics.clone(), api_server.clone());
        Box::pin(async move {
            serve(&metrics, &api_server, request).await.unwrap_or_else(IntoResponse::into_response)
        })
    })
}

async fn serve(
    metrics: &ProxyMetrics,
    api_server: &AsUser,
    request: Request<Incoming>,
) -> Result<Response<axum::body::Body>, ProxyError> {
    check(request.method(), request.uri(), request.version(), request.headers())?;
    if request.uri().path() != PATH {
        return Ok(error(StatusCode::NOT_FOUND, "this server has only /metrics"));
    }
    if request.method() != Method::GET {
        let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "metrics are read with GET");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return Ok(response);
    }
    // Its connections have no client certificate.
    let authentication = Authentication::of(request.headers(), None)?;
    let review = api_server.send(UserRequest::metrics_review(&authentication)).await?;
    match review.status() {
        StatusCode::CREATED => {}
        StatusCode::UNAUTHORIZED => {
            return Ok(error(StatusCode::UNAUTHORIZED, "the API server does not know this token"));
        }
        status => return Err(ProxyError::NoView(format!("the API server returned {status} for a review"))),
    }
    let body = to_bytes(review.into_body(), MAX_BYTES).await;
    if !body.is_ok_and(|body| is_allowed(&body)) {
        return Ok(error(
            StatusCode::FORBIDDEN,
            "the user may not get /metrics; bind ensemble-metrics-reader",
        ));
    }
    let Ok(text) = metrics.encode() else {
        return Ok(error(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics"));
    };
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

fn error(status: StatusCode, message: &str) -> Response<axum::body::Body> {
    ErrorResponse::new(status, message).into_response()
}
