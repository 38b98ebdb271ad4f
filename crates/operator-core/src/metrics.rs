//! Where the process is told what happened, so that it can be measured.

use std::time::Duration;

use jiff::Timestamp;

pub use crate::client::RequestInfo;

/// How a reconcile ended, as a metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileResult {
    /// The object is as its spec asks.
    Done,
    /// It waits for a change.
    AwaitChange,
    /// It asked to be looked at again.
    Requeued,
    /// It failed and is tried again with backoff.
    Failed,
    /// It failed and waits for its spec to change.
    TerminalError,
    /// It took longer than the reconcile timeout.
    TimedOut,
    /// It panicked.
    Panicked,
}

impl ReconcileResult {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::AwaitChange,
        Self::Requeued,
        Self::Failed,
        Self::TerminalError,
        Self::TimedOut,
        Self::Panicked,
    ];

    /// The word for it in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::AwaitChange => "await_change",
            Self::Requeued => "requeued",
            Self::Failed => "failed",
            Self::TerminalError => "terminal_error",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
        }
    }
}

/// How a review ended, as a metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReviewResult {
    /// Allowed as it is.
    Allowed,
    /// Allowed with changes.
    Changed,
    /// Denied.
    Denied,
    /// ConversionResponse to another version.
    Converted,
    /// Neither: the request made no sense, or the handler failed.
    Failed,
}

impl ReviewResult {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Allowed, Self::Changed, Self::Denied, Self::Converted, Self::Failed];

    /// The word for it in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Changed => "changed",
            Self::Denied => "denied",
            Self::Converted => "converted",
            Self::Failed => "failed",
        }
    }
}

/// A gauge of a controller's own that tells of single objects. It is worked out whenever somebody asks for the metrics, from
/// what the informers know, so that nothing has to be kept true. There are as many series as objects.
#[derive(Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Its name, with the unit.
    pub name: &'static str,
    /// What it says, as a sentence without its full stop.
    pub help: &'static str,
    /// The names of its labels, each with what it says.
    pub labels: &'static [(&'static str, &'static str)],
}

/// What a gauge says now.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Which gauge.
    pub gauge: &'static Gauge,
    /// What its labels say, in their order, and the value.
    pub series: Vec<(Vec<String>, f64)>,
}

/// Called from wherever something worth measuring happens. All methods do nothing unless implemented; they must
/// return at once. No argument may come from an object's name, but for what [`Metrics::gauges`] reads: each is a label,
/// and labels must be few.
pub trait Metrics: Send + Sync + 'static {
    /// A reconcile ended.
    fn reconciled(&self, _controller: &'static str, _ended: ReconcileResult, _took: Duration) {}

    /// An object was taken from the queue after waiting there.
    fn dequeued(&self, _controller: &'static str, _waited: Duration) {}

    /// A controller was wired; `depth` says how many objects wait in its queue, and nothing of one that has ended.
    fn queue(&self, _controller: &'static str, _depth: Box<dyn Fn() -> usize + Send + Sync>) {}

    /// A controller was wired that has gauges of its own; `read` says what they show now.
    fn gauges(&self, _controller: &'static str, _read: Box<dyn Fn() -> Vec<Reading> + Send + Sync>) {}

    /// The API server answered, with a status code unless the request failed on its way. Several attempts at one
    /// request are one.
    fn requested(&self, _asked: &RequestInfo, _code: Option<u16>, _took: Duration) {}

    /// The API server asked for patience with this status code, and the request is sent again.
    fn retried(&self, _code: u16) {}

    /// The process has informers; `objects` says how many objects of which kind they hold. Kinds may repeat.
    fn informers(&self, _objects: Box<dyn Fn() -> Vec<(String, usize)> + Send + Sync>) {}

    /// The watch of a kind listed everything anew, or failed and is tried again.
    fn watch_restarted(&self, _kind: &str, _why: WatchRestart) {}

    /// A review was answered. `webhook` is its route.
    fn reviewed(&self, _webhook: &str, _ended: ReviewResult, _took: Duration) {}

    /// A controller ended by itself and is started again.
    fn restarted(&self, _controller: &'static str) {}

    /// This process began or ceased to lead a controller.
    fn leading(&self, _controller: &'static str, _leads: bool) {}

    /// A certificate is in use that ends at this time.
    fn certificate(&self, _certificate: Certificate, _not_after: Timestamp) {}
}

/// Why a watch started over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchRestart {
    /// It listed everything: at the start, or because its place in the history is gone.
    Listed,
    /// It failed.
    Failed,
}

impl WatchRestart {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Listed, Self::Failed];

    /// The word for it in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Failed => "failed",
        }
    }
}

/// Which certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Certificate {
    /// The authority's.
    Authority,
    /// The one that the servers show.
    Serving,
}

impl Certificate {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Authority, Self::Serving];

    /// The word for it in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Authority => "authority",
            Self::Serving => "serving",
        }
    }
}

/// Measures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {}
