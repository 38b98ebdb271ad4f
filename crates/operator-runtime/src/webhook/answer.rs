//! From a request to its response, with a line in the log and a count for whoever measures.

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
        Conversion, ConversionBounds, ConversionResponse, Denial, Endpoint, ReviewError, ReviewInfo,
    },
    metrics::ReviewResult,
};
use tracing::{Instrument, Span, debug, debug_span, field::Empty, info, warn};

use super::{
    Served, Webhooks,
    intake::{Intake, Room, Rooms},
    refusal::{Refusal, respond},
};
use crate::server::HasClientCertificate;

/// Answers requests for what is served.
pub(super) struct Answerer {
    webhooks: Webhooks,
    admission: Intake,
    conversion: Intake,
    needs_client_certificate: bool,
}

/// How long the conversion of all objects of one review may take.
const CONVERSION: Duration = Duration::from_secs(10);
/// How much of a denial is logged. It may quote what users write.
const LONGEST_DENIAL: usize = 1024;

type Answer = Result<(Bytes, ReviewResult), Refusal>;

impl Answerer {
    pub(super) fn new(webhooks: Webhooks, needs_client_certificate: bool) -> Self {
        let rooms = Rooms::default();
        let (admission, conversion) = (Intake::admission(&rooms), Intake::conversion(&rooms));
        Self { webhooks, admission, conversion, needs_client_certificate }
    }

    pub(super) async fn respond(&self, request: Request) -> Response<Body> {
        let began = Instant::now();
        let path = request.uri().path().to_owned();
        let Some(served) = self.webhooks.served.get(&path) else {
            return nothing_here().into_response();
        };
        let span = debug_span!("review", path, uid = Empty, outcome = Empty);
        let answer = async {
            match served {
                Served::Admission(endpoint) => self.admit(endpoint, request).await,
                Served::Conversion(conversion) => self.convert(&path, conversion, request).await,
            }
        };
        let answer = answer.instrument(span.clone()).await;
        let ended = answer.as_ref().map_or(ReviewResult::Failed, |(_, ended)| *ended);
        span.record("outcome", ended.label());
        self.webhooks.metrics.reviewed(&path, ended, began.elapsed());
        match answer {
            Ok((body, _)) => respond(StatusCode::OK, body),
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn admit(&self, endpoint: &Endpoint, request: Request) -> Answer {
        self.authenticate(&request)?;
        let taken = self.admission.take(request).await?;
        let _room = self.admission.room_to_admit(&taken, endpoint.copies()).await?;
        match endpoint.answer(&taken.body).await {
            Ok(answered) => {
                Span::current().record("uid", &answered.about.uid);
                if let Some(denial) = &answered.denial {
                    tell_denial(endpoint.path(), &answered.about, denial);
                }
                Ok((answered.body.into(), answered.ended))
            }
            Err(unanswered) => {
                tell_failure(endpoint.path(), unanswered.about.as_ref(), &unanswered.cause);
                Err(refuse(&unanswered.cause))
            }
        }
    }

    /// Conversions are not asked for a certificate: the API server sends none with them, whatever it is told.
    fn authenticate(&self, request: &Request) -> Result<(), Refusal> {
        let client = request.extensions().get::<HasClientCertificate>();
        if !self.needs_client_certificate || client == Some(&HasClientCertificate(true)) {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "reviews are answered only to clients with a certificate of --webhook-client-ca-file: give the API \
             server one by --admission-control-config-file",
        ))
    }

    async fn convert(&self, path: &str, conversion: &Arc<Conversion>, request: Request) -> Answer {
        let taken = self.conversion.take(request).await?;
        let (room, share) = self.conversion.room_to_convert(&taken, Conversion::memory).await?;
        let cancelled = Arc::new(AtomicBool::new(false));
        // Set when the sender gives up, which drops this.
        let _cancel = Cancel(cancelled.clone());
        let deadline = Instant::now() + CONVERSION;
        let bounds = ConversionBounds { object: share.object, answer: share.answer, deadline, cancelled };
        // Long lists take long; others must not wait for them. The room goes along: nobody can stop a
        // thread, so it is taken for as long as the thread runs.
        let conversion = conversion.clone();
        let answer = tokio::task::spawn_blocking(move || {
            let answer = conversion.answer(&taken.body, &bounds);
            drop(taken);
            answer.map(|answer| (answer, room))
        })
        .await;
        match answer {
            Ok(Ok((ConversionResponse { body, uid, count, failed }, room))) => {
                Span::current().record("uid", &uid);
                if let Some(failed) = &failed {
                    warn!(path, uid, count, error = %failed, "a conversion failed");
                }
                // The answer takes room until it is sent.
                let body = Bytes::from_owner(OwnedFinalizer { body, _room: room });
                Ok((body, if failed.is_some() { ReviewResult::Failed } else { ReviewResult::Converted }))
            }
            Ok(Err(cause)) => {
                tell_failure(path, None, &cause);
                Err(refuse(&cause))
            }
            Err(_) => Err(refuse(&ReviewError::Panicked)),
        }
    }
}

/// Tells a conversion that nobody waits for it any more.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An answer and the room that it takes.
struct OwnedFinalizer {
    body: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for OwnedFinalizer {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn nothing_here() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "no webhook is served at this path: compare the webhook configuration with deploy/webhooks, and see \
         whether the manager runs the controller (--controllers)",
    )
}

/// A denial can be found in the log by the review's id. Names come from users, so they are quoted.
fn tell_denial(path: &str, about: &ReviewInfo, denial: &Denial) {
    let message: String = denial.message.chars().take(LONGEST_DENIAL).collect();
    info!(
        path,
        uid = about.uid,
        user = ?about.user,
        request = ?about.to_string(),
        dry_run = about.dry_run,
        code = denial.reason.code(),
        denial = ?message,
        "denied"
    );
}

/// What this process got wrong is for its operator; what strangers send is not worth a line each.
fn tell_failure(path: &str, about: Option<&ReviewInfo>, cause: &ReviewError) {
    let uid = about.map_or("", |about| about.uid.as_str());
    let request = about.map(ToString::to_string).unwrap_or_default();
    if cause.is_senders() {
        debug!(path, uid, ?request, error = ?cause.to_string(), "a review made no sense");
    } else {
        warn!(path, uid, ?request, error = ?cause.to_string(), "a review was not answered; the failure policy decides");
    }
}

fn refuse(cause: &ReviewError) -> Refusal {
    let status = match cause {
        cause if cause.is_senders() => StatusCode::BAD_REQUEST,
        ReviewError::NotFilled => StatusCode::SERVICE_UNAVAILABLE,
        ReviewError::TooSlow(_) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refusal::new(status, cause.to_string())
}
