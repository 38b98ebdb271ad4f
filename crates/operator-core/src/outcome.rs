//! What a reconcile comes to.

use std::{error::Error, time::Duration};

/// How a reconcile ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object is as its spec asks.
    Done,
    /// It is not yet, and only a change elsewhere, which the informers will show, can bring it further.
    AwaitChange,
    /// Look again after this time, also if nothing changes.
    RequeueAfter(Duration),
}

impl Outcome {
    /// The outcome that looks again soonest, and is content only if both are.
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

/// What the runner wants to know of a controller's error.
pub trait ReconcileError: Error + Send + Sync + 'static {
    /// A word in `CamelCase` for the Event and the log, `QuotaExceeded` for example.
    fn reason(&self) -> &'static str;

    /// Whether trying again is useless until the spec changes. Others are tried again with backoff.
    fn is_terminal(&self) -> bool {
        false
    }

    /// Whether this is nothing to tell people of: something ordinary that the next attempt will settle.
    fn is_quiet(&self) -> bool {
        false
    }
}
