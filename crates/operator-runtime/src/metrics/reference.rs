//! List of all metrics. The registry, the reference page, and the tests are generated from it.
//!
//! Names follow Prometheus: counters end in `_total`, metrics with a unit end in the unit, and
//! units are base units. No label contains the name of an object or a user, a message, or a request
//! path. Each label has few values.

use operator_core::metrics::{Certificate, ReconcileResult, ReviewResult, WatchRestart};

pub use super::metric::{Kind, Label, Metric, Unit, Values};

const CONTROLLER: Label = Label { name: "controller", values: Values::Controllers };

const RESULT: Label = Label {
    name: "result",
    values: Values::These(|| ReconcileResult::ALL.map(ReconcileResult::label).to_vec()),
};

const VERB: Label = Label {
    name: "verb",
    values: Values::These(|| {
        vec!["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
    }),
};

const RESOURCE: Label = Label {
    name: "resource",
    values: Values::Few(
        "resource, group, and subresource as in RBAC, such as `podsets.app.example.com/status`; empty for other paths",
    ),
};

const CODE: Label = Label {
    name: "code",
    values: Values::Few("the status code of the response, or `none` without a response"),
};

const RETRY_CODE: Label = Label { name: "code", values: Values::These(|| RETRIES_OF.to_vec()) };

/// Status codes after which requests are retried.
pub(super) const RETRIES_OF: [&str; 3] = ["429", "503", "504"];

const KIND: Label = Label { name: "kind", values: Values::Few("a watched kind, such as `Pod`") };

const REASON: Label =
    Label { name: "reason", values: Values::These(|| WatchRestart::ALL.map(WatchRestart::label).to_vec()) };

const WEBHOOK: Label = Label { name: "webhook", values: Values::Few("the path that the API server calls") };

const REVIEWED: Label =
    Label { name: "result", values: Values::These(|| ReviewResult::ALL.map(ReviewResult::label).to_vec()) };

const CERTIFICATE: Label = Label {
    name: "certificate",
    values: Values::These(|| Certificate::ALL.map(Certificate::label).to_vec()),
};

const VERSION: Label = Label { name: "version", values: Values::Few("the version of the manager") };

/// From a reconcile without work to one that reaches its timeout.
const RECONCILE: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// From an idle queue to one that does not drain.
const WAIT: &[f64] = &[0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];
/// From a read of the API server's cache to a request that is throttled repeatedly.
const REQUEST: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// From a response out of caches to the longest timeout of an API server.
const REVIEW: &[f64] = &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 10.0];

pub(super) static BUILD: Metric =
    Metric::info("ensemble_build", &[VERSION], "Version of the manager; always 1");
pub(super) static RECONCILES: Metric =
    Metric::counter("ensemble_reconcile", &[CONTROLLER, RESULT], "Number of reconciles, by result");
pub(super) static RECONCILE_DURATION: Metric =
    Metric::histogram("ensemble_reconcile_duration", &[CONTROLLER], RECONCILE, "Duration of reconciles");
pub(super) static QUEUE_DEPTH: Metric = Metric::gauge(
    "ensemble_queue_depth",
    &[CONTROLLER],
    "Number of objects in the queue, without those that wait for a timer",
);
pub(super) static QUEUE_WAIT: Metric = Metric::histogram(
    "ensemble_queue_wait",
    &[CONTROLLER],
    WAIT,
    "Time that objects waited in the queue before a reconcile",
);
pub(super) static RESTARTS: Metric = Metric::counter(
    "ensemble_controller_restarts",
    &[CONTROLLER],
    "Number of restarts of a controller that ended unexpectedly",
);
pub(super) static REQUESTS: Metric = Metric::counter(
    "ensemble_api_requests",
    &[VERB, RESOURCE, CODE],
    "Number of requests to the API server; retries of a request are not counted",
);
pub(super) static REQUEST_DURATION: Metric = Metric::histogram(
    "ensemble_api_request_duration",
    &[VERB],
    REQUEST,
    "Duration of requests to the API server, including retries; for a watch, until the response starts",
);
pub(super) static RETRIES: Metric = Metric::counter(
    "ensemble_api_request_retries",
    &[RETRY_CODE],
    "Number of responses after which a request is retried",
);
pub(super) static INFORMER_OBJECTS: Metric =
    Metric::gauge("ensemble_informer_objects", &[KIND], "Number of objects in the caches");
pub(super) static WATCH_RESTARTS: Metric = Metric::counter(
    "ensemble_watch_restarts",
    &[KIND, REASON],
    "Number of lists of a watch, including the first, and of failures that are retried",
);
pub(super) static LEADER: Metric =
    Metric::gauge("ensemble_leader", &[CONTROLLER], "Whether this replica leads the controller, 1 or 0");
pub(super) static LEADER_TRANSITIONS: Metric = Metric::counter(
    "ensemble_leader_transitions",
    &[CONTROLLER],
    "Number of times that this replica became the leader of the controller",
);
pub(super) static CERTIFICATE_EXPIRY: Metric = Metric::gauge(
    "ensemble_certificate_expiry_timestamp",
    &[CERTIFICATE],
    "Expiry of a certificate in use, in seconds since 1970",
)
.of(Unit::Seconds);
pub(super) static REVIEWS: Metric = Metric::counter(
    "ensemble_admission_reviews",
    &[WEBHOOK, REVIEWED],
    "Number of admission and conversion reviews, by result",
);
pub(super) static REVIEW_DURATION: Metric = Metric::histogram(
    "ensemble_admission_duration",
    &[WEBHOOK],
    REVIEW,
    "Duration of admission and conversion reviews",
);
pub(super) static PROCESS_CPU: Metric =
    Metric::counter("process_cpu", &[], "CPU time in user and system mode").of(Unit::Seconds);
pub(super) static PROCESS_RESIDENT: Metric =
    Metric::gauge("process_resident_memory", &[], "Resident memory").of(Unit::Bytes);
pub(super) static PROCESS_VIRTUAL: Metric =
    Metric::gauge("process_virtual_memory", &[], "Virtual memory").of(Unit::Bytes);
pub(super) static PROCESS_FDS: Metric =
    Metric::gauge("process_open_fds", &[], "Number of open file descriptors");
pub(super) static PROCESS_MAX_FDS: Metric =
    Metric::gauge("process_max_fds", &[], "Maximum number of open file descriptors");
pub(super) static PROCESS_THREADS: Metric = Metric::gauge("process_threads", &[], "Number of threads");
pub(super) static PROCESS_START: Metric =
    Metric::gauge("process_start_time", &[], "Start time of the process, in seconds since 1970")
        .of(Unit::Seconds);

/// All metrics in the order of the reference page.
pub static METRICS: &[&Metric] = &[
    &BUILD,
    &RECONCILES,
    &RECONCILE_DURATION,
    &QUEUE_DEPTH,
    &QUEUE_WAIT,
    &RESTARTS,
    &REQUESTS,
    &REQUEST_DURATION,
    &RETRIES,
    &INFORMER_OBJECTS,
    &WATCH_RESTARTS,
    &LEADER,
    &LEADER_TRANSITIONS,
    &CERTIFICATE_EXPIRY,
    &REVIEWS,
    &REVIEW_DURATION,
    &PROCESS_CPU,
    &PROCESS_RESIDENT,
    &PROCESS_VIRTUAL,
    &PROCESS_FDS,
    &PROCESS_MAX_FDS,
    &PROCESS_THREADS,
    &PROCESS_START,
];
