//! Metrics of the proxy.

use std::time::Instant;

use http::StatusCode;
use operator_runtime::metrics::{
    LabelValue, Measure, encode,
    reference::{Label, Metric, Values},
    registry,
};
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::view::ViewKind;

const ROUTE: Label = Label { name: "route", values: Values::These(|| Route::ALL.map(Route::label).to_vec()) };
const CODE: Label = Label {
    name: "code",
    values: Values::Few("the status code of the response, or `other` for one that HTTP does not define"),
};
const VIEW: Label =
    Label { name: "view", values: Values::These(|| ViewKind::ALL.map(ViewKind::name).to_vec()) };
/// From a response out of the cache of the API server to its timeout.
const DURATIONS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

const REQUESTS: Metric = Metric::counter("ensemble_proxy_requests", &[ROUTE, CODE], "Responses");
const DURATION: Metric = Metric::histogram(
    "ensemble_proxy_request_duration",
    &[ROUTE],
    DURATIONS,
    "Time from a request to the head of its response, with the time of the API server",
);
const IN_PROGRESS: Metric = Metric::gauge(
    "ensemble_proxy_requests_in_progress",
    &[ROUTE],
    "Responses that have begun and not ended, such as watches and upgraded connections",
);
const EXPIRED: Metric = Metric::counter(
    "ensemble_proxy_expired_watches",
    &[VIEW],
    "Watches that were ended or refused because their user sees something else than before",
);

/// All metrics that are the proxy's own.
pub const METRICS: [&Metric; 4] = [&REQUESTS, &DURATION, &IN_PROGRESS, &EXPIRED];

/// How a request was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The response of the API server to the user.
    Forward,
    /// The response of the API server to a request to upgrade the connection.
    Upgrade,
    /// A view.
    View,
    /// The watch of a view.
    Watch,
    /// An error of the proxy.
    Error,
}

impl Route {
    const ALL: [Self; 5] = [Self::Forward, Self::Upgrade, Self::View, Self::Watch, Self::Error];

    fn label(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Upgrade => "upgrade",
            Self::View => "view",
            Self::Watch => "watch",
            Self::Error => "error",
        }
    }
}

/// Counts and times requests. Calls never block.
pub struct ProxyMetrics {
    registry: Registry,
    requests: Measure<Counter, 2>,
    duration: Measure<Histogram, 1>,
    in_progress: Measure<Gauge, 1>,
    expired: Measure<Counter, 1>,
}

impl Default for ProxyMetrics {
    fn default() -> Self {
        let mut registry = registry(env!("CARGO_PKG_VERSION"));
        let metrics = Self {
            requests: Measure::new(&mut registry, &REQUESTS),
            duration: Measure::new(&mut registry, &DURATION),
            in_progress: Measure::new(&mut registry, &IN_PROGRESS),
            expired: Measure::new(&mut registry, &EXPIRED),
            registry,
        };
        for route in Route::ALL {
            metrics.duration.with([route.label().into()]);
            metrics.in_progress.with([route.label().into()]);
        }
        for kind in ViewKind::ALL {
            metrics.expired.with([kind.name().into()]);
        }
        metrics
    }
}

/// A response in progress. Dropping it ends it.
pub struct ResponseInProgress(Gauge);

impl Drop for ResponseInProgress {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl ProxyMetrics {
    /// Counts a response. It is in progress until the returned value is dropped.
    pub fn record_response(&self, route: Route, code: StatusCode, began: Instant) -> ResponseInProgress {
        let known = code.canonical_reason().is_some();
        let code: LabelValue = if known { code.as_str().to_owned().into() } else { "other".into() };
        self.requests.with([route.label().into(), code]).inc();
        self.duration.with([route.label().into()]).observe(began.elapsed().as_secs_f64());
        let in_progress = self.in_progress.with([route.label().into()]);
        in_progress.inc();
        ResponseInProgress(in_progress)
    }

    /// Counts a watch that was ended or refused because its user sees something else than before.
    pub fn expired(&self, kind: ViewKind) {
        self.expired.with([kind.name().into()]).inc();
    }

    /// Encodes all metrics as OpenMetrics text.
    ///
    /// # Errors
    /// Returns an error if encoding fails, which does not happen in memory.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        encode(&self.registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_and_go_on_until_they_end() {
        let metrics = ProxyMetrics::default();
        let began = Instant::now();
        let first = metrics.record_response(Route::Watch, StatusCode::OK, began);
        drop(metrics.record_response(Route::Watch, StatusCode::from_u16(799).unwrap(), began));
        let text = metrics.encode().unwrap();
        for line in [
            "ensemble_proxy_requests_total{route=\"watch\",code=\"200\"} 1",
            "ensemble_proxy_requests_total{route=\"watch\",code=\"other\"} 1",
            "ensemble_proxy_requests_in_progress{route=\"watch\"} 1",
            "ensemble_proxy_requests_in_progress{route=\"view\"} 0",
            "ensemble_proxy_request_duration_seconds_count{route=\"watch\"} 2",
            "ensemble_proxy_expired_watches_total{view=\"tenants\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
        drop(first);
        assert!(metrics.encode().unwrap().contains("ensemble_proxy_requests_in_progress{route=\"watch\"} 0"));
        let names: Vec<_> = METRICS.iter().map(|metric| metric.family()).collect();
        assert!(names.iter().all(|name| text.contains(&format!("# TYPE {name} "))), "{names:?}");
    }
}
