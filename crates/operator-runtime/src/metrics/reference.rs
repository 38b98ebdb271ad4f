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
        "plural, group and subresource as in RBAC: `pods`, `podsets.app.example.com/status`; empty for other paths",
    ),
};

const CODE: Label = Label {
    name: "code",
    values: Values::Few("the status code of the answer, or `none` if there was no answer"),
};

const RETRY_CODE: Label = Label { name: "code", values: Values::These(|| RETRIES_OF.to_vec()) };

/// Status codes after which requests are retried.
pub(super) const RETRIES_OF: [&str; 3] = ["429", "503", "504"];

const KIND: Label = Label { name: "kind", values: Values::Few("a kind that is watched: `Pod`, `PodSet`") };

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
    Metric::info("ensemble_build", &[VERSION], "Which manager this is; always 1");
pub(super) static RECONCILES: Metric =
    Metric::counter("ensemble_reconcile", &[CONTROLLER, RESULT], "Reconciles that ended, by how they ended");
pub(super) static RECONCILE_DURATION: Metric = Metric::histogram(
    "ensemble_reconcile_duration",
    &[CONTROLLER],
    RECONCILE,
    "How long reconciles took, whatever came of them",
);
pub(super) static QUEUE_DEPTH: Metric = Metric::gauge(
    "ensemble_queue_depth",
    &[CONTROLLER],
    "Objects that wait to be reconciled now; those that wait for a timer are not counted",
);
pub(super) static QUEUE_WAIT: Metric = Metric::histogram(
    "ensemble_queue_wait",
    &[CONTROLLER],
    WAIT,
    "How long objects waited for a reconcile after they changed or their timer rang",
);
pub(super) static RESTARTS: Metric = Metric::counter(
    "ensemble_controller_restarts",
    &[CONTROLLER],
    "Times that a controller ended by itself and was started again",
);
pub(super) static REQUESTS: Metric = Metric::counter(
    "ensemble_api_requests",
    &[VERB, RESOURCE, CODE],
    "Requests to the API server that were answered or failed; repeated attempts at one request are one",
);
pub(super) static REQUEST_DURATION: Metric = Metric::histogram(
    "ensemble_api_request_duration",
    &[VERB],
    REQUEST,
    "How long the API server took to answer, repeated attempts included; of a watch, until it began",
);
pub(super) static RETRIES: Metric = Metric::counter(
    "ensemble_api_request_retries",
    &[RETRY_CODE],
    "Answers by which the API server asked for patience; such a request is sent again after a while",
);
pub(super) static INFORMER_OBJECTS: Metric =
    Metric::gauge("ensemble_informer_objects", &[KIND], "Objects that are held in memory");
pub(super) static WATCH_RESTARTS: Metric = Metric::counter(
    "ensemble_watch_restarts",
    &[KIND, REASON],
    "Times that a watch listed everything anew, the first time included, or failed and was tried again",
);
pub(super) static LEADER: Metric =
    Metric::gauge("ensemble_leader", &[CONTROLLER], "1 while this replica leads the controller, else 0");
pub(super) static LEADER_TRANSITIONS: Metric = Metric::counter(
    "ensemble_leader_transitions",
    &[CONTROLLER],
    "Times that this replica began to lead the controller",
);
pub(super) static CERTIFICATE_EXPIRY: Metric = Metric::gauge(
    "ensemble_certificate_expiry_timestamp",
    &[CERTIFICATE],
    "When a certificate that is in use ends, in seconds since 1970",
)
.of(Unit::Seconds);
pub(super) static REVIEWS: Metric = Metric::counter(
    "ensemble_admission_reviews",
    &[WEBHOOK, REVIEWED],
    "Reviews of the API server that were answered, by how they ended",
);
pub(super) static REVIEW_DURATION: Metric =
    Metric::histogram("ensemble_admission_duration", &[WEBHOOK], REVIEW, "How long reviews took");
pub(super) static PROCESS_CPU: Metric =
    Metric::counter("process_cpu", &[], "Time on processors, in user and system mode").of(Unit::Seconds);
pub(super) static PROCESS_RESIDENT: Metric =
    Metric::gauge("process_resident_memory", &[], "Memory in use").of(Unit::Bytes);
pub(super) static PROCESS_VIRTUAL: Metric =
    Metric::gauge("process_virtual_memory", &[], "Addresses in use").of(Unit::Bytes);
pub(super) static PROCESS_FDS: Metric = Metric::gauge("process_open_fds", &[], "Open files and connections");
pub(super) static PROCESS_MAX_FDS: Metric =
    Metric::gauge("process_max_fds", &[], "How many files and connections may be open");
pub(super) static PROCESS_THREADS: Metric = Metric::gauge("process_threads", &[], "Threads");
pub(super) static PROCESS_START: Metric =
    Metric::gauge("process_start_time", &[], "When the process started, in seconds since 1970")
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
