//! Rotation of certificates: compares the Secret with what it should hold, corrects it, and serves
//! its certificate.

use std::{pin::pin, sync::Arc, time::Duration};

use certificates::{InvalidIdentity, IssueError};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use operator_core::{backoff::WatchBackoff, error};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

pub(crate) mod cert_manager;
pub(crate) mod plan;
mod propagation;
pub(crate) mod publisher;
pub(crate) mod self_signed;
pub(crate) mod write_limiter;

use self::{cert_manager::CertManager, publisher::Publisher, self_signed::SelfSigned};
use super::{outage_log::OutageLog, store::SharedSecret};

/// Maximum time between two checks, because clocks can be adjusted.
const LONGEST_SLEEP: Duration = Duration::from_mins(5);
/// Minimum time between two checks, so that rounding cannot make the loop spin.
const SHORTEST_SLEEP: Duration = Duration::from_millis(20);
/// Backoff after a failed check: minimum and maximum.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Result of a check of the Secret.
pub(crate) struct Synced {
    /// Certificate authorities that clients must trust, in PEM. Empty if none are needed.
    pub(crate) bundle: Vec<u8>,
    /// Latest time of the next check.
    pub(crate) requeue_after: Option<Duration>,
}

/// Error while the Secret is checked or corrected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RotationError {
    #[error("cannot read the Secret {secret}{advice}")]
    Read { secret: String, advice: &'static str, source: kube::Error },
    #[error("cannot write the Secret {secret}{advice}")]
    Write { secret: String, advice: &'static str, source: kube::Error },
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("another client keeps changing the Secret {secret}: see its managedFields")]
    RateLimited { secret: String, wait: Duration },
    #[error("cannot write the Secret {secret}: every attempt conflicted with another writer")]
    Conflict { secret: String },
    #[error("the Secret {secret} does not exist: apply deploy/cert-manager so that cert-manager creates it")]
    Missing { secret: String },
    #[error("the Secret {secret} cannot be used: {reason}")]
    Unusable { secret: String, reason: InvalidIdentity },
}

impl RotationError {
    pub(crate) fn read(secret: &SharedSecret, source: kube::Error) -> Self {
        Self::Read { secret: secret.to_string(), advice: advice(&source), source }
    }

    pub(crate) fn write(secret: &SharedSecret, source: kube::Error) -> Self {
        Self::Write { secret: secret.to_string(), advice: advice(&source), source }
    }

    pub(crate) fn rate_limited(secret: &SharedSecret, wait: Duration) -> Self {
        Self::RateLimited { secret: secret.to_string(), wait }
    }

    /// Returns how long to wait before the next attempt, if the error determines it.
    fn wait(&self) -> Option<Duration> {
        if let Self::RateLimited { wait, .. } = self { Some(*wait) } else { None }
    }

    pub(crate) fn conflict(secret: &SharedSecret) -> Self {
        Self::Conflict { secret: secret.to_string() }
    }

    pub(crate) fn missing(secret: &SharedSecret) -> Self {
        Self::Missing { secret: secret.to_string() }
    }

    pub(crate) fn unusable(secret: &SharedSecret, reason: InvalidIdentity) -> Self {
        Self::Unusable { secret: secret.to_string(), reason }
    }
}

fn advice(source: &kube::Error) -> &'static str {
    let is_forbidden = error::status(source).is_some_and(kube::core::Status::is_forbidden);
    if is_forbidden { "; apply deploy/rbac/certificates.yaml" } else { "" }
}

/// Issuer of the certificates in the Secret.
pub(crate) enum Mode {
    SelfSigned(SelfSigned),
    CertManager(CertManager),
}

/// Checks and corrects the Secret. All checks of a process go through it, one at a time.
pub(crate) struct Rotator {
    secret: SharedSecret,
    publisher: Publisher,
    mode: Mutex<Mode>,
    bundle: watch::Sender<Vec<u8>>,
}

impl Rotator {
    pub(crate) fn new(secret: SharedSecret, publisher: Publisher, mode: Mode) -> Self {
        Self { secret, publisher, mode: Mutex::new(mode), bundle: watch::Sender::new(Vec::new()) }
    }

    /// Returns the bundle of the last check; empty before the first one.
    pub(crate) fn bundle(&self) -> watch::Receiver<Vec<u8>> {
        self.bundle.subscribe()
    }

    /// Reads the Secret, corrects it, and serves its certificate.
    pub(crate) async fn sync(&self) -> Result<Synced, RotationError> {
        let mut mode = self.mode.lock().await;
        let synced = match &mut *mode {
            Mode::SelfSigned(self_signed) => self_signed.sync(&self.secret, &self.publisher).await?,
            Mode::CertManager(cert_manager) => cert_manager.sync(&self.secret, &self.publisher).await?,
        };
        self.bundle.send_if_modified(|bundle| {
            let is_new = *bundle != synced.bundle;
            bundle.clone_from(&synced.bundle);
            is_new
        });
        Ok(synced)
    }

    /// Runs [`Self::sync`] when the Secret changes and when a certificate becomes due, until
    /// `stop`.
    pub(crate) async fn run<T>(self: Arc<Self>, changes: impl Stream<Item = T>, stop: CancellationToken) {
        let mut changes = pin!(changes);
        let mut outages = OutageLog::new(format!("rotate the certificates in the Secret {}", self.secret));
        let mut backoff = WatchBackoff::new(RETRY.0, RETRY.1);
        let mut sleep = RETRY.1;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = changes.next() => {}
                () = tokio::time::sleep(sleep) => {}
            }
            sleep = match self.sync().await {
                Ok(synced) => {
                    outages.recovered();
                    backoff = WatchBackoff::new(RETRY.0, RETRY.1);
                    synced.requeue_after.unwrap_or(LONGEST_SLEEP).clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
                }
                Err(error) => {
                    outages.failed(&error::chain(&error));
                    error.wait().or_else(|| backoff.next()).unwrap_or(RETRY.1)
                }
            };
        }
    }
}

/// Returns the time until `moment`; zero if it has passed.
pub(crate) fn until(now: Timestamp, moment: Timestamp) -> Duration {
    Duration::try_from(now.duration_until(moment)).unwrap_or_default()
}
