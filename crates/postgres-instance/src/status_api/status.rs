//! Handler of the status API.

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{Request, StatusCode, body::Incoming};
use postgres_model::report::{BackupPhase, BackupReport, InstanceReport};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    client::Client,
    handle::{BackupRequest, StatusHandle},
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

/// Body of `POST /switch-wal`.
#[derive(Deserialize)]
struct SwitchRequest {
    file: String,
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
            Ok(Route::Seal) => {
                match self.read(request.into_body(), r#"the epoch, such as {"epoch": 7}"#).await {
                    Ok(SealRequest { epoch }) => self.seal(epoch).await,
                    Err(refusal) => refusal,
                }
            }
            Ok(Route::Backup) => match self.read(request.into_body(), "the UID of a PostgresBackup").await {
                Ok(request) => self.backup(request).await,
                Err(refusal) => refusal,
            },
            Ok(Route::SwitchWal) => match self.read(request.into_body(), "the name of a WAL file").await {
                Ok(SwitchRequest { file }) => {
                    self.handle.request_switch(file);
                    report(&self.handle.report())
                }
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

    /// Asks for a backup, unless another one runs.
    async fn backup(&self, request: BackupRequest) -> Response {
        let present = self.handle.report().backup.clone();
        let runs = |backup: &BackupReport| {
            backup.uid != request.uid
                && matches!(backup.phase, BackupPhase::Copying | BackupPhase::WaitingForWal)
        };
        if present.as_ref().is_some_and(runs) {
            return text(StatusCode::CONFLICT, "another backup runs; retry when it has ended");
        }
        info!(uid = request.uid, "received a request for a backup");
        let uid = request.uid.clone();
        self.handle.request_backup(request);
        tokio::select! {
            biased;
            started = self.handle.report_of_backup(&uid) => report(&started),
            () = sleep(self.limits.backup) => {
                text(StatusCode::SERVICE_UNAVAILABLE, "the backup has not begun: PostgreSQL does not run; retry")
            }
            () = self.stop.cancelled() => text(StatusCode::SERVICE_UNAVAILABLE, "the instance stops"),
        }
    }

    /// Reads the body of a request.
    async fn read<T: DeserializeOwned>(&self, body: Incoming, content: &str) -> Result<T, Response> {
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
            let line = format!("cannot read the body: {error}; send {content}");
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
