//! From a request to its response, with a line in the log and a count for whoever measures.

use std::{sync::Arc, time::Instant};

use axum::{
    body::Body,
    extract::Request,
    http::{Response, StatusCode},
    response::IntoResponse,
};
use operator_core::{
    admission::{About, Cause, Conversion, Converted, Denial, Endpoint},
    metrics::Reviewed,
};
use tracing::{Instrument, Span, debug, debug_span, field::Empty, info, warn};

use super::{
    Served, Webhooks,
    intake::Intake,
    refusal::{Refusal, respond},
};

/// Answers requests for what is served.
pub(super) struct Answerer {
    webhooks: Webhooks,
    admission: Intake,
    conversion: Intake,
}

type Answer = Result<(Vec<u8>, Reviewed), Refusal>;

impl Answerer {
    pub(super) fn new(webhooks: Webhooks) -> Self {
        Self { webhooks, admission: Intake::admission(), conversion: Intake::conversion() }
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
        let ended = answer.as_ref().map_or(Reviewed::Failed, |(_, ended)| *ended);
        span.record("outcome", ended.label());
        self.webhooks.metrics.reviewed(&path, ended, began.elapsed());
        match answer {
            Ok((body, _)) => respond(StatusCode::OK, body),
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn admit(&self, endpoint: &Endpoint, request: Request) -> Answer {
        let taken = self.admission.take(request).await?;
        match endpoint.answer(&taken.body).await {
            Ok(answered) => {
                Span::current().record("uid", &answered.about.uid);
                if let Some(denial) = &answered.denial {
                    tell_denial(endpoint.path(), &answered.about, denial);
                }
                Ok((answered.body, answered.ended))
            }
            Err(unanswered) => {
                tell_failure(endpoint.path(), unanswered.about.as_ref(), &unanswered.cause);
                Err(refuse(&unanswered.cause))
            }
        }
    }

    async fn convert(&self, path: &str, conversion: &Arc<Conversion>, request: Request) -> Answer {
        let taken = self.conversion.take(request).await?;
        // Long lists take long; others must not wait for them.
        let conversion = conversion.clone();
        let answer = tokio::task::spawn_blocking(move || conversion.answer(&taken.body)).await;
        match answer {
            Ok(Ok(Converted { body, uid, count, failed })) => {
                Span::current().record("uid", &uid);
                if let Some(failed) = &failed {
                    warn!(path, uid, count, error = %failed, "a conversion failed");
                }
                Ok((body, if failed.is_some() { Reviewed::Failed } else { Reviewed::Converted }))
            }
            Ok(Err(cause)) => {
                tell_failure(path, None, &cause);
                Err(refuse(&cause))
            }
            Err(_) => Err(refuse(&Cause::Panicked)),
        }
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
fn tell_denial(path: &str, about: &About, denial: &Denial) {
    info!(
        path,
        uid = about.uid,
        user = ?about.user,
        request = ?about.to_string(),
        dry_run = about.dry_run,
        code = denial.reason.code(),
        denial = ?denial.message,
        "denied"
    );
}

/// What this process got wrong is for its operator; what strangers send is not worth a line each.
fn tell_failure(path: &str, about: Option<&About>, cause: &Cause) {
    let uid = about.map_or("", |about| about.uid.as_str());
    let request = about.map(ToString::to_string).unwrap_or_default();
    if cause.is_senders() {
        debug!(path, uid, ?request, error = ?cause.to_string(), "a review made no sense");
    } else {
        warn!(path, uid, ?request, error = ?cause.to_string(), "a review was not answered; the failure policy decides");
    }
}

fn refuse(cause: &Cause) -> Refusal {
    let status = match cause {
        cause if cause.is_senders() => StatusCode::BAD_REQUEST,
        Cause::NotFilled => StatusCode::SERVICE_UNAVAILABLE,
        Cause::TooSlow(_) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refusal::new(status, cause.to_string())
}
