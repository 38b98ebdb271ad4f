//! Callbacks for a metrics backend.

use std::time::Duration;

use jiff::Timestamp;

pub use crate::request_info::RequestInfo;

/// Result of a reconcile, as a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileResult {
    /// The object matches its spec.
    Done,
    /// The controller waits for a change.
    AwaitChange,
    /// The controller requested another reconcile.
    Requeued,
    /// The reconcile failed and is retried with backoff.
    Failed,
    /// The reconcile failed and waits for a change of the spec.
    TerminalError,
    /// The reconcile exceeded the timeout.
    TimedOut,
    /// The reconcile panicked.
    Panicked,
}

impl ReconcileResult {
    /// All results.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::AwaitChange,
        Self::Requeued,
        Self::Failed,
        Self::TerminalError,
        Self::TimedOut,
        Self::Panicked,
    ];

    /// Returns the value of the metric label.
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

/// Result of a review, as a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReviewResult {
    /// The object was allowed unchanged.
    Allowed,
    /// The object was allowed and patched.
    Changed,
    /// The object was denied.
    Denied,
    /// The objects were converted to another version.
    Converted,
    /// The review was invalid, or the handler failed.
    Failed,
}

impl ReviewResult {
    /// All results.
    pub const ALL: [Self; 5] = [Self::Allowed, Self::Changed, Self::Denied, Self::Converted, Self::Failed];

    /// Returns the value of the metric label.
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

/// A gauge of a controller with one series per object.
///
/// The samples are computed from the caches on every scrape.
#[derive(Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Name with the unit.
    pub name: &'static str,
    /// Help text, without a full stop.
    pub help: &'static str,
    /// Names and descriptions of the labels.
    pub labels: &'static [(&'static str, &'static str)],
}

/// Current samples of a gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct GaugeSamples {
    /// The gauge.
    pub gauge: &'static Gauge,
    /// Values of the labels, in the order of [`Gauge::labels`], and the value of the sample.
    pub series: Vec<(Vec<String>, f64)>,
}

/// A histogram of a controller, of durations in seconds. It has no labels.
#[derive(Debug, PartialEq)]
pub struct Histogram {
    /// Name with the unit.
    pub name: &'static str,
    /// Help text, without a full stop.
    pub help: &'static str,
    /// Upper bounds of the buckets.
    pub bounds: &'static [f64],
}

/// Adds a duration to a histogram.
pub type Observe = Box<dyn Fn(Duration) + Send + Sync>;

/// Receives measurements. All methods do nothing by default.
///
/// Implementations must return immediately. Arguments are metric labels with few values: none of
/// them contains the name of an object, except in the samples of [`Metrics::gauges`].
pub trait Metrics: Send + Sync + 'static {
    /// Called after each reconcile.
    fn reconciled(&self, _controller: &'static str, _result: ReconcileResult, _duration: Duration) {}

    /// Called when a worker takes a key from the queue, with the time that the key waited.
    fn dequeued(&self, _controller: &'static str, _waited: Duration) {}

    /// Registers the queue of a controller. `depth` returns the number of queued objects, and 0
    /// after the controller was dropped.
    fn queue(&self, _controller: &'static str, _depth: Box<dyn Fn() -> usize + Send + Sync>) {}

    /// Registers the gauges of a controller. `read` returns their current samples.
    fn gauges(&self, _controller: &'static str, _read: Box<dyn Fn() -> Vec<GaugeSamples> + Send + Sync>) {}

    /// Registers a histogram of a controller. Returns the function that adds a duration to it.
    fn histogram(&self, _histogram: &'static Histogram) -> Observe {
        Box::new(|_| {})
    }

    /// Called after each request to the API server. `code` is `None` if there was no response. All
    /// attempts of a request count as one.
    fn requested(&self, _request: &RequestInfo, _code: Option<u16>, _duration: Duration) {}

    /// Called before a request is sent again because of this status code, such as 429.
    fn retried(&self, _code: u16) {}

    /// Registers the informers of the process. `objects` returns the number of cached objects by
    /// kind. A kind can occur more than once.
    fn informers(&self, _objects: Box<dyn Fn() -> Vec<(String, usize)> + Send + Sync>) {}

    /// Called when the watch of a kind lists all objects or fails.
    fn watch_restarted(&self, _kind: &str, _reason: WatchRestart) {}

    /// Called after each review. `webhook` is its path.
    fn reviewed(&self, _webhook: &str, _result: ReviewResult, _duration: Duration) {}

    /// Called when a controller is restarted after a failure.
    fn restarted(&self, _controller: &'static str) {}

    /// Called when this process starts or stops leading a controller.
    fn leading(&self, _controller: &'static str, _leads: bool) {}

    /// Called when a certificate is loaded, with its expiry.
    fn certificate(&self, _certificate: Certificate, _not_after: Timestamp) {}
}

/// Reason for the restart of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchRestart {
    /// It lists all objects: at the start, or because its resource version expired.
    Listed,
    /// It failed.
    Failed,
}

impl WatchRestart {
    /// All reasons.
    pub const ALL: [Self; 2] = [Self::Listed, Self::Failed];

    /// Returns the value of the metric label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Failed => "failed",
        }
    }
}

/// A certificate of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Certificate {
    /// Certificate of the certificate authority.
    Authority,
    /// Certificate of the servers.
    Serving,
}

impl Certificate {
    /// All certificates.
    pub const ALL: [Self; 2] = [Self::Authority, Self::Serving];

    /// Returns the value of the metric label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Authority => "authority",
            Self::Serving => "serving",
        }
    }
}

/// A metrics backend that discards everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {}
