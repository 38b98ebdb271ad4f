//! Handler of the status API.

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{Request, StatusCode, body::Incoming};
use postgres_model::report::InstanceReport;
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    client::Client,
    handle::StatusHandle,
    limits::{Limits, MAX_BODY},
    response::{Response, json, text},
    route::{Poll, Route},
    server::Handler,
};

/// Handler of the status API.
pub(super) struct Status {
    pub(super) handle: StatusHandle,
    pub(super) limits: Limits,
    pub(super) stop: CancellationToken,
}

/// Body of `POST /seal`.
#[derive(Deserialize)]
struct SealRequest {
    epoch: u64,
}

impl Handler for Status {
    async fn handle(&self, request: Request<Incoming>, client: Client) -> Response {
        let uri = request.uri();
        match Route::of(client, request.method(), uri.path(), uri.query()) {
            Ok(Route::Status(poll)) => self.status(poll).await,
            Ok(Route::Seal) => match self.read(request.into_body()).await {
                Ok(request) => self.seal(request.epoch).await,
                Err(refusal) => refusal,
            },
            Err(refusal) => refusal.into(),
        }
    }
}

impl Status {
    async fn status(&self, poll: Poll) -> Response {
        if let Some(sequence) = poll.after {
            let changed = timeout(poll.wait, self.handle.report_other_than(sequence));
            let _ = self.stop.run_until_cancelled(changed).await;
        }
        report(&self.handle.report())
    }

    async fn seal(&self, epoch: u64) -> Response {
        info!(epoch, "received a request to seal");
        self.handle.request_seal(epoch);
        let problem = tokio::select! {
            biased;
            sealed = self.handle.report_sealed_at(epoch) => return report(&sealed),
            () = sleep(self.limits.seal) => format!("{} s have passed", self.limits.seal.as_secs()),
            () = self.stop.cancelled() => "the instance stops".to_owned(),
        };
        warn!(epoch, problem, "cannot confirm that the member is sealed");
        let line =
            format!("not sealed at epoch {epoch} yet: {problem}; read the log of the instance, and retry");
        text(StatusCode::SERVICE_UNAVAILABLE, &line)
    }

    /// Reads the body of `POST /seal`.
    async fn read(&self, body: Incoming) -> Result<SealRequest, Response> {
        let body = timeout(self.limits.body, Limited::new(body, MAX_BODY).collect()).await;
        let body =
            body.map_err(|_late| text(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))?;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                text(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body has more than {MAX_BODY} bytes"))
            } else {
                text(StatusCode::BAD_REQUEST, &format!("cannot read the body: {error}"))
            }
        })?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| {
            let line = format!("cannot read the body: {error}; send the epoch, such as {{\"epoch\": 7}}");
            text(StatusCode::BAD_REQUEST, &line)
        })
    }
}

fn report(report: &InstanceReport) -> Response {
    match report.encode() {
        Ok(document) => json(document),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}
