//! The one look at the Secret that everything goes through, and the loop that looks when there is reason to.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use operator_core::{backoff::WatchBackoff, error};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use super::{
    display::Display, followed::Followed, managed::Managed, pki::PkiError, secret::SharedSecret,
    trouble::Trouble, x509::Unreadable,
};

/// The longest time between two looks, for clocks may be set.
const LONGEST_SLEEP: Duration = Duration::from_mins(5);
/// The shortest time between two looks, for no rounding may make the loop spin.
const SHORTEST_SLEEP: Duration = Duration::from_millis(20);
/// How long to wait after a look that failed.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// What a look at the Secret led to.
pub(super) struct Settled {
    /// Every authority that clients should trust, in PEM. Empty if they need none.
    pub(super) bundle: Vec<u8>,
    /// When to look again at the latest.
    pub(super) look_again: Option<Duration>,
}

/// Why the Secret is not as it should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeeperError {
    #[error("cannot read the Secret {secret}{advice}")]
    Read { secret: String, advice: &'static str, source: kube::Error },
    #[error("cannot write the Secret {secret}{advice}")]
    Write { secret: String, advice: &'static str, source: kube::Error },
    #[error(transparent)]
    Make(#[from] PkiError),
    #[error("somebody else keeps changing the Secret {secret}: its managedFields tell who")]
    TooOften { secret: String, wait: Duration },
    #[error("others kept writing the Secret {secret} at the same time")]
    Contended { secret: String },
    #[error("there is no Secret {secret}: cert-manager writes it when deploy/cert-manager is applied")]
    Missing { secret: String },
    #[error("the Secret {secret} cannot be used: {reason}")]
    Unusable { secret: String, reason: Unreadable },
}

impl KeeperError {
    pub(super) fn read(secret: &SharedSecret, source: kube::Error) -> Self {
        Self::Read { secret: secret.to_string(), advice: advice(&source), source }
    }

    pub(super) fn write(secret: &SharedSecret, source: kube::Error) -> Self {
        Self::Write { secret: secret.to_string(), advice: advice(&source), source }
    }

    pub(super) fn too_often(secret: &SharedSecret, wait: Duration) -> Self {
        Self::TooOften { secret: secret.to_string(), wait }
    }

    /// How long to wait before the next try, if the error says so.
    fn wait(&self) -> Option<Duration> {
        if let Self::TooOften { wait, .. } = self { Some(*wait) } else { None }
    }

    pub(super) fn contended(secret: &SharedSecret) -> Self {
        Self::Contended { secret: secret.to_string() }
    }

    pub(super) fn missing(secret: &SharedSecret) -> Self {
        Self::Missing { secret: secret.to_string() }
    }

    pub(super) fn unusable(secret: &SharedSecret, reason: Unreadable) -> Self {
        Self::Unusable { secret: secret.to_string(), reason }
    }
}

fn advice(source: &kube::Error) -> &'static str {
    let is_forbidden = error::status(source).is_some_and(kube::core::Status::is_forbidden);
    if is_forbidden { "; apply deploy/rbac/certificates.yaml" } else { "" }
}

/// Who keeps the Secret.
pub(super) enum Habit {
    Managed(Managed),
    Followed(Followed),
}

/// Looks at the Secret, whoever asks.
pub(super) struct Keeper {
    secret: SharedSecret,
    display: Display,
    habit: Mutex<Habit>,
    bundle: watch::Sender<Vec<u8>>,
}

impl Keeper {
    pub(super) fn new(secret: SharedSecret, display: Display, habit: Habit) -> Self {
        Self { secret, display, habit: Mutex::new(habit), bundle: watch::Sender::new(Vec::new()) }
    }

    /// The bundle as it was at the last look; empty before the first.
    pub(super) fn bundle(&self) -> watch::Receiver<Vec<u8>> {
        self.bundle.subscribe()
    }

    /// Looks at the Secret as it is now, puts it right, and says what it led to.
    pub(super) async fn settle(&self) -> Result<Settled, KeeperError> {
        let mut habit = self.habit.lock().await;
        let settled = match &mut *habit {
            Habit::Managed(managed) => managed.settle(&self.secret, &self.display).await?,
            Habit::Followed(followed) => followed.settle(&self.secret, &self.display).await?,
        };
        self.bundle.send_if_modified(|bundle| {
            let is_new = *bundle != settled.bundle;
            bundle.clone_from(&settled.bundle);
            is_new
        });
        Ok(settled)
    }

    /// Looks whenever the Secret changed, and when it is time, until `stop`.
    pub(super) async fn run<T>(self: Arc<Self>, changes: impl Stream<Item = T>, stop: CancellationToken) {
        let mut changes = pin!(changes);
        let mut trouble = Trouble::new(format!("keep the certificates in the Secret {}", self.secret));
        let mut backoff = WatchBackoff::new(RETRY.0, RETRY.1);
        let mut sleep = RETRY.1;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = changes.next() => {}
                () = tokio::time::sleep(sleep) => {}
            }
            sleep = match self.settle().await {
                Ok(settled) => {
                    trouble.worked();
                    backoff = WatchBackoff::new(RETRY.0, RETRY.1);
                    settled.look_again.unwrap_or(LONGEST_SLEEP).clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
                }
                Err(error) => {
                    trouble.failed(&error::chain(&error));
                    error.wait().or_else(|| backoff.next()).unwrap_or(RETRY.1)
                }
            };
        }
    }
}

/// The time until a moment; none if it is past.
pub(super) fn until(now: Timestamp, moment: Timestamp) -> Duration {
    Duration::try_from(now.duration_until(moment)).unwrap_or_default()
}
