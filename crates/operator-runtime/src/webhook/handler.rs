//! HTTP handler of the webhooks, with logs, metrics, and spans.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{Response, StatusCode},
    response::IntoResponse,
};
use operator_core::{
    admission::{
        Conversion, ConversionLimits, ConversionResponse, Denial, Endpoint, ReviewError, ReviewInfo,
    },
    metrics::ReviewResult,
};
use tracing::{Instrument, Span, debug, debug_span, field::Empty, info, warn};

use super::{
    Route, Webhooks,
    request_limits::{MemoryBudgets, RequestLimits, Reservation},
};
use crate::{
    error_response::{ErrorResponse, json_response},
    server::ClientCertificate,
};

/// HTTP handler of all webhooks.
pub(super) struct Handler {
    webhooks: Webhooks,
    admission_limits: RequestLimits,
    conversion_limits: RequestLimits,
    needs_client_certificate: bool,
}

/// Timeout of a conversion review, for all of its objects.
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum characters of a denial in the log, because it can quote user input.
const MAX_LOGGED_DENIAL: usize = 1024;

type Reply = Result<(Bytes, ReviewResult), ErrorResponse>;

impl Handler {
    pub(super) fn new(webhooks: Webhooks, needs_client_certificate: bool) -> Self {
        let budgets = MemoryBudgets::default();
        Self {
            webhooks,
            admission_limits: RequestLimits::admission(&budgets),
            conversion_limits: RequestLimits::conversion(&budgets),
            needs_client_certificate,
        }
    }

    /// Returns the response to a request, and records its result.
    pub(super) async fn handle(&self, request: Request) -> Response<Body> {
        let started = Instant::now();
        let path = request.uri().path().to_owned();
        let Some(route) = self.webhooks.routes.get(&path) else {
            return not_found().into_response();
        };
        let span = debug_span!("review", path, uid = Empty, outcome = Empty);
        let reply = async {
            match route {
                Route::Admission(endpoint) => self.admit(endpoint, request).await,
                Route::Conversion(conversion) => self.convert(&path, conversion, request).await,
            }
        };
        let reply = reply.instrument(span.clone()).await;
        let result = reply.as_ref().map_or(ReviewResult::Failed, |(_, result)| *result);
        span.record("outcome", result.label());
        self.webhooks.metrics.reviewed(&path, result, started.elapsed());
        match reply {
            Ok((body, _)) => json_response(StatusCode::OK, body),
            Err(error) => error.into_response(),
        }
    }

    async fn admit(&self, endpoint: &Endpoint, request: Request) -> Reply {
        self.authenticate(&request)?;
        let body = self.admission_limits.read_body(request).await?;
        let _reservation = self.admission_limits.reserve_for_admission(&body, endpoint.copies()).await?;
        match endpoint.answer(&body.bytes).await {
            Ok(response) => {
                Span::current().record("uid", &response.info.uid);
                if let Some(denial) = &response.denial {
                    log_denial(endpoint.path(), &response.info, denial);
                }
                Ok((response.body.into(), response.result))
            }
            Err(failure) => {
                log_failure(endpoint.path(), failure.info.as_ref(), &failure.cause);
                Err(error_response(&failure.cause))
            }
        }
    }

    /// Checks the client certificate of an admission review. Conversion reviews are not checked,
    /// because the API server never presents a certificate with them.
    fn authenticate(&self, request: &Request) -> Result<(), ErrorResponse> {
        let client = request.extensions().get::<ClientCertificate>();
        if !self.needs_client_certificate || client.is_some_and(|client| client.0.is_some()) {
            return Ok(());
        }
        Err(ErrorResponse::new(
            StatusCode::UNAUTHORIZED,
            "admission reviews require a client certificate that is signed by an authority in \
             --webhook-client-ca-file; configure one with --admission-control-config-file of the API server",
        ))
    }

    async fn convert(&self, path: &str, conversion: &Arc<Conversion>, request: Request) -> Reply {
        let request = self.conversion_limits.read_body(request).await?;
        let (reservation, memory) =
            self.conversion_limits.reserve_for_conversion(&request, Conversion::memory).await?;
        let cancelled = Arc::new(AtomicBool::new(false));
        let _cancel = CancelOnDrop(cancelled.clone());
        let deadline = Instant::now() + CONVERSION_TIMEOUT;
        let bounds =
            ConversionLimits { object: memory.object, response: memory.response, deadline, cancelled };
        // A long list would block other requests. The thread owns the reservation, because a thread
        // cannot be stopped and uses the memory until it ends.
        let conversion = conversion.clone();
        let response = tokio::task::spawn_blocking(move || {
            let response = conversion.answer(&request.bytes, &bounds);
            drop(request);
            response.map(|response| (response, reservation))
        })
        .await;
        match response {
            Ok(Ok((ConversionResponse { body, uid, count, failed }, reservation))) => {
                Span::current().record("uid", &uid);
                if let Some(failed) = &failed {
                    warn!(path, uid, count, error = %failed, "cannot convert objects");
                }
                // The response uses memory until it has been sent.
                let body = Bytes::from_owner(ReservedBody { body, _reservation: reservation });
                Ok((body, if failed.is_some() { ReviewResult::Failed } else { ReviewResult::Converted }))
            }
            Ok(Err(cause)) => {
                log_failure(path, None, &cause);
                Err(error_response(&cause))
            }
            Err(_) => Err(error_response(&ReviewError::Panicked)),
        }
    }
}

/// Cancels a conversion when the client disconnects, which drops the request handler.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Response body and its memory reservation.
struct ReservedBody {
    body: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for ReservedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn not_found() -> ErrorResponse {
    ErrorResponse::new(
        StatusCode::NOT_FOUND,
        "no webhook is served at this path; compare the webhook configuration with deploy/webhooks, and check \
         that the manager runs the controller (--controllers)",
    )
}

/// Logs a denial with the UID of the review. Values from users are quoted.
fn log_denial(path: &str, about: &ReviewInfo, denial: &Denial) {
    let message: String = denial.message.chars().take(MAX_LOGGED_DENIAL).collect();
    info!(
        path,
        uid = about.uid,
        user = ?about.user,
        request = ?about.to_string(),
        dry_run = about.dry_run,
        code = denial.reason.code(),
        denial = ?message,
        "denied request"
    );
}

/// Logs a failed review: as a warning if the cause is in this process, at debug level if it is the
/// request.
fn log_failure(path: &str, about: Option<&ReviewInfo>, cause: &ReviewError) {
    let uid = about.map_or("", |about| about.uid.as_str());
    let request = about.map(ToString::to_string).unwrap_or_default();
    if cause.is_client_error() {
        debug!(path, uid, ?request, error = ?cause.to_string(), "rejected an invalid review");
    } else {
        warn!(path, uid, ?request, error = ?cause.to_string(), "review failed; the failure policy applies");
    }
}

fn error_response(cause: &ReviewError) -> ErrorResponse {
    let status = match cause {
        cause if cause.is_client_error() => StatusCode::BAD_REQUEST,
        ReviewError::NotSynced => StatusCode::SERVICE_UNAVAILABLE,
        ReviewError::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    ErrorResponse::new(status, cause.to_string())
}
