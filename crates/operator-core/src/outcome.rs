//! Results and errors of a reconcile.

use std::{error::Error, time::Duration};

/// Result of a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object matches its spec.
    Done,
    /// The object does not match its spec yet, and a watched change will trigger the next
    /// reconcile.
    AwaitChange,
    /// The object must be reconciled again after this time, also without a change.
    RequeueAfter(Duration),
}

impl Outcome {
    /// Combines two outcomes: the earliest requeue, and [`Outcome::Done`] only if both are done.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::RequeueAfter(a), Self::RequeueAfter(b)) => Self::RequeueAfter(a.min(b)),
            (Self::RequeueAfter(wait), _) | (_, Self::RequeueAfter(wait)) => Self::RequeueAfter(wait),
            (Self::AwaitChange, _) | (_, Self::AwaitChange) => Self::AwaitChange,
            (Self::Done, Self::Done) => Self::Done,
        }
    }
}

/// Error of a controller, as the runner handles it.
pub trait ReconcileError: Error + Send + Sync + 'static {
    /// Returns the reason for the Event and the log, in `CamelCase`. Use a constant of
    /// [`reasons`](crate::conditions::reasons).
    fn reason(&self) -> &'static str;

    /// Returns whether a retry is useless until the spec changes. Other errors are retried with
    /// backoff.
    fn is_terminal(&self) -> bool {
        false
    }

    /// Returns whether the error is ordinary and a retry resolves it. Such an error produces no
    /// warning and no Event.
    fn is_quiet(&self) -> bool {
        false
    }
}
