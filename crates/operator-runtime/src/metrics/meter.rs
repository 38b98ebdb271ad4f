//! The meter of a process.

use std::{borrow::Cow, sync::Arc, time::Duration};

use jiff::Timestamp;
use operator_core::metrics::{Asked, Certificate, Ended, Metrics, Reading, Restarted, Reviewed};
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};

use super::{
    live::Live,
    measure::{Measure, Word, register},
    reference::{
        BUILD, CERTIFICATE_EXPIRY, LEADER, LEADER_TRANSITIONS, QUEUE_WAIT, RECONCILE_DURATION, RECONCILES,
        REQUEST_DURATION, REQUESTS, RESTARTS, RETRIES, RETRIES_OF, REVIEW_DURATION, REVIEWS, WATCH_RESTARTS,
    },
    words::Words,
};

/// Counts and times what happens in a process.
///
/// # Guarantees
/// The number of series has a bound, whatever happens: words that come from outside are counted as `other` when
/// there get too many of them. Calls return at once. Everything starts at zero when the process starts.
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
    resources: Words,
    kinds: Words,
    webhooks: Words,
}

impl Meter {
    /// A meter for a manager of this version that runs these controllers.
    ///
    /// What can be counted of a controller is there from the start, with 0: a rate over a series that has just
    /// appeared does not see its first count.
    pub fn new(version: &'static str, controllers: impl IntoIterator<Item = &'static str>) -> Self {
        let mut registry = Registry::default();
        let of = &mut registry;
        let live = Arc::new(Live::default());
        register(of, &BUILD, Info::new([("version", version)]));
        of.register_collector(Box::new(live.clone()));
        #[cfg(target_os = "linux")]
        of.register_collector(Box::new(super::process::Process::new()));
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
            resources: Words::default(),
            kinds: Words::default(),
            webhooks: Words::default(),
            registry,
        };
        for code in RETRIES_OF {
            meter.retries.with([word(code)]);
        }
        for controller in controllers {
            meter.prepare(controller);
        }
        meter
    }

    fn prepare(&self, controller: &'static str) {
        for ended in Ended::ALL {
            self.reconciles.with([word(controller), word(ended.label())]);
        }
        self.reconcile_duration.with([word(controller)]);
        self.queue_wait.with([word(controller)]);
        self.restarts.with([word(controller)]);
        self.leader.with([word(controller)]);
        self.leader_transitions.with([word(controller)]);
    }

    /// All metrics as OpenMetrics text.
    ///
    /// # Errors
    /// Never in practice: it is written into memory.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Metrics for Meter {
    fn reconciled(&self, controller: &'static str, ended: Ended, took: Duration) {
        self.reconciles.with([word(controller), word(ended.label())]).inc();
        self.reconcile_duration.with([word(controller)]).observe(took.as_secs_f64());
    }

    fn dequeued(&self, controller: &'static str, waited: Duration) {
        self.queue_wait.with([word(controller)]).observe(waited.as_secs_f64());
    }

    fn queue(&self, controller: &'static str, depth: Box<dyn Fn() -> usize + Send + Sync>) {
        self.live.queue(controller, depth);
    }

    fn gauges(&self, controller: &'static str, read: Box<dyn Fn() -> Vec<Reading> + Send + Sync>) {
        self.live.gauges(controller, read);
    }

    fn requested(&self, asked: &Asked, code: Option<u16>, took: Duration) {
        let verb = word(asked.verb);
        let code = code.map_or(Cow::Borrowed("none"), |code| Cow::Owned(code.to_string()));
        self.requests.with([verb.clone(), self.resources.word(&asked.resource), code]).inc();
        self.request_duration.with([verb]).observe(took.as_secs_f64());
    }

    fn retried(&self, code: u16) {
        self.retries.with([Cow::Owned(code.to_string())]).inc();
    }

    fn informers(&self, objects: Box<dyn Fn() -> Vec<(String, usize)> + Send + Sync>) {
        self.live.informers(objects);
    }

    fn watch_restarted(&self, kind: &str, why: Restarted) {
        self.watch_restarts.with([self.kinds.word(kind), word(why.label())]).inc();
    }

    fn reviewed(&self, webhook: &str, ended: Reviewed, took: Duration) {
        let webhook = self.webhooks.word(webhook);
        self.reviews.with([webhook.clone(), word(ended.label())]).inc();
        self.review_duration.with([webhook]).observe(took.as_secs_f64());
    }

    fn restarted(&self, controller: &'static str) {
        self.restarts.with([word(controller)]).inc();
    }

    fn leading(&self, controller: &'static str, leads: bool) {
        let led = self.leader.with([word(controller)]).set(i64::from(leads)) == 1;
        if leads && !led {
            self.leader_transitions.with([word(controller)]).inc();
        }
    }

    fn certificate(&self, certificate: Certificate, not_after: Timestamp) {
        self.certificate_expiry.with([word(certificate.label())]).set(not_after.as_second());
    }
}

fn word(word: &'static str) -> Word {
    Cow::Borrowed(word)
}

#[cfg(test)]
mod tests;
