//! Where the runtime is told what the controllers did.

use std::time::Duration;

/// How a reconcile ended, as a metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The object is as its spec asks.
    Done,
    /// It waits for a change.
    AwaitChange,
    /// It asked to be looked at again.
    Requeued,
    /// It failed and is tried again with backoff.
    Failed,
    /// It failed and waits for its spec to change.
    FailedForGood,
    /// It took longer than the reconcile timeout.
    TimedOut,
    /// It panicked.
    Panicked,
}

/// Called by the runner. All methods do nothing unless implemented; they must return at once.
pub trait Metrics: Send + Sync + 'static {
    /// A reconcile ended.
    fn reconciled(&self, _controller: &'static str, _ended: Ended, _took: Duration) {}

    /// An object was taken from the queue after waiting there; `left` others still wait.
    fn dequeued(&self, _controller: &'static str, _waited: Duration, _left: usize) {}
}

/// Measures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {}
