//! Recorder of all metrics of a process.

use std::{borrow::Cow, sync::Arc, time::Duration};

use jiff::Timestamp;
use operator_core::metrics::{
    Certificate, GaugeSamples, Histogram as Definition, Metrics, Observe, ReconcileResult, RequestInfo,
    ReviewResult, WatchRestart,
};
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{
    label_limit::LabelLimit,
    live::Live,
    measure::{LabelValue, Measure},
    reference::{
        CERTIFICATE_EXPIRY, LEADER, LEADER_TRANSITIONS, QUEUE_WAIT, RECONCILE_DURATION, RECONCILES,
        REQUEST_DURATION, REQUESTS, RESTARTS, RETRIES, RETRIES_OF, REVIEW_DURATION, REVIEWS, WATCH_RESTARTS,
    },
};

/// Counts and times events in a process.
///
/// # Guarantees
/// The number of series is bounded: label values that come from outside are counted as `other` when
/// there are too many. Calls never block. All values are zero when the process starts.
pub struct Meter {
    registry: Registry,
    live: Arc<Live>,
    reconciles: Measure<Counter, 2>,
    reconcile_duration: Measure<Histogram, 1>,
    queue_wait: Measure<Histogram, 1>,
    restarts: Measure<Counter, 1>,
    requests: Measure<Counter, 3>,
    request_duration: Measure<Histogram, 1>,
    retries: Measure<Counter, 1>,
    watch_restarts: Measure<Counter, 2>,
    leader: Measure<Gauge, 1>,
    leader_transitions: Measure<Counter, 1>,
    certificate_expiry: Measure<Gauge, 1>,
    reviews: Measure<Counter, 2>,
    review_duration: Measure<Histogram, 1>,
    resources: LabelLimit,
    kinds: LabelLimit,
    webhooks: LabelLimit,
}

impl Meter {
    /// Creates a meter for a manager of this version that runs these controllers.
    ///
    /// Series of a controller exist from the start with the value 0, because `rate` misses the
    /// first increment of a new series.
    pub fn new(version: &'static str, controllers: impl IntoIterator<Item = &'static str>) -> Self {
        let mut registry = super::registry(version);
        let of = &mut registry;
        let live = Arc::new(Live::default());
        of.register_collector(Box::new(live.clone()));
        let meter = Self {
            reconciles: Measure::new(of, &RECONCILES),
            reconcile_duration: Measure::new(of, &RECONCILE_DURATION),
            queue_wait: Measure::new(of, &QUEUE_WAIT),
            restarts: Measure::new(of, &RESTARTS),
            requests: Measure::new(of, &REQUESTS),
            request_duration: Measure::new(of, &REQUEST_DURATION),
            retries: Measure::new(of, &RETRIES),
            watch_restarts: Measure::new(of, &WATCH_RESTARTS),
            leader: Measure::new(of, &LEADER),
            leader_transitions: Measure::new(of, &LEADER_TRANSITIONS),
            certificate_expiry: Measure::new(of, &CERTIFICATE_EXPIRY),
            reviews: Measure::new(of, &REVIEWS),
            review_duration: Measure::new(of, &REVIEW_DURATION),
            live,
            resources: LabelLimit::default(),
            kinds: LabelLimit::default(),
            webhooks: LabelLimit::default(),
            registry,
        };
        for code in RETRIES_OF {
            meter.retries.with([label_value(code)]);
        }
        for controller in controllers {
            meter.prepare(controller);
        }
        meter
    }

    fn prepare(&self, controller: &'static str) {
        for ended in ReconcileResult::ALL {
            self.reconciles.with([label_value(controller), label_value(ended.label())]);
        }
        self.reconcile_duration.with([label_value(controller)]);
        self.queue_wait.with([label_value(controller)]);
        self.restarts.with([label_value(controller)]);
        self.leader.with([label_value(controller)]);
        self.leader_transitions.with([label_value(controller)]);
    }

    /// Encodes all metrics as OpenMetrics text.
    ///
    /// # Errors
    /// Returns an error if encoding fails, which does not happen in memory.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        super::encode(&self.registry)
    }
}

impl Metrics for Meter {
    fn reconciled(&self, controller: &'static str, ended: ReconcileResult, took: Duration) {
        self.reconciles.with([label_value(controller), label_value(ended.label())]).inc();
        self.reconcile_duration.with([label_value(controller)]).observe(took.as_secs_f64());
    }

    fn dequeued(&self, controller: &'static str, waited: Duration) {
        self.queue_wait.with([label_value(controller)]).observe(waited.as_secs_f64());
    }

    fn queue(&self, controller: &'static str, depth: Box<dyn Fn() -> usize + Send + Sync>) {
        self.live.queue(controller, depth);
    }

    fn gauges(&self, controller: &'static str, read: Box<dyn Fn() -> Vec<GaugeSamples> + Send + Sync>) {
        self.live.gauges(controller, read);
    }

    fn histogram(&self, definition: &'static Definition) -> Observe {
        let histogram = self.live.histogram(definition);
        Box::new(move |duration| histogram.observe(duration.as_secs_f64()))
    }

    fn requested(&self, request: &RequestInfo, code: Option<u16>, took: Duration) {
        let verb = label_value(request.verb);
        let code = code.map_or(Cow::Borrowed("none"), |code| Cow::Owned(code.to_string()));
        self.requests.with([verb.clone(), self.resources.value(&request.resource), code]).inc();
        self.request_duration.with([verb]).observe(took.as_secs_f64());
    }

    fn retried(&self, code: u16) {
        self.retries.with([Cow::Owned(code.to_string())]).inc();
    }

    fn informers(&self, objects: Box<dyn Fn() -> Vec<(String, usize)> + Send + Sync>) {
        self.live.informers(objects);
    }

    fn watch_restarted(&self, kind: &str, reason: WatchRestart) {
        self.watch_restarts.with([self.kinds.value(kind), label_value(reason.label())]).inc();
    }

    fn reviewed(&self, webhook: &str, ended: ReviewResult, took: Duration) {
        let webhook = self.webhooks.value(webhook);
        self.reviews.with([webhook.clone(), label_value(ended.label())]).inc();
        self.review_duration.with([webhook]).observe(took.as_secs_f64());
    }

    fn restarted(&self, controller: &'static str) {
        self.restarts.with([label_value(controller)]).inc();
    }

    fn leading(&self, controller: &'static str, leads: bool) {
        let led = self.leader.with([label_value(controller)]).set(i64::from(leads)) == 1;
        if leads && !led {
            self.leader_transitions.with([label_value(controller)]).inc();
        }
    }

    fn certificate(&self, certificate: Certificate, not_after: Timestamp) {
        self.certificate_expiry.with([label_value(certificate.label())]).set(not_after.as_second());
    }
}

fn label_value(value: &'static str) -> LabelValue {
    Cow::Borrowed(value)
}

#[cfg(test)]
mod tests;
