//! Checks queries against the existing metrics and their labels.

use std::collections::{BTreeSet, HashSet};

use manager::CONTROLLERS;
use operator_runtime::metrics::reference::{Label, METRICS, Metric, Values};
use promql_parser::{
    label::{MatchOp, Matcher},
    parser::{Expr, VectorSelector, parse},
    util::{ExprVisitor, walk_expr},
};

/// Labels that Prometheus adds to every series.
const TARGET: [&str; 4] = ["job", "namespace", "pod", "instance"];

/// Asserts that a query uses only existing metrics, labels, and label values.
pub(crate) fn check(query: &str) {
    let expression = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut usage = Usage::default();
    walk_expr(&mut usage, &expression).unwrap();
    assert!(!usage.selectors.is_empty(), "{query}: selects no metric");
    let mut labels: HashSet<&str> = TARGET.into();
    for selector in &usage.selectors {
        labels.extend(check_selector(query, selector));
    }
    for label in &usage.groupings {
        assert!(labels.contains(label.as_str()), "{query}: none of its metrics has a label {label}");
    }
}

/// Returns the labels of the selected metric.
fn check_selector(query: &str, selector: &VectorSelector) -> Vec<&'static str> {
    let name = selector.name.as_deref().unwrap_or_else(|| panic!("{query}: a selector without a name"));
    if let Some(labels) = labels_of_controller(name).or_else(|| labels_of_instance(name)) {
        for matcher in &selector.matchers.matchers {
            let label = matcher.name.as_str();
            assert!(
                TARGET.contains(&label) || labels.contains(&label),
                "{query}: {name} has no label {label}"
            );
        }
        return labels;
    }
    let metric = METRICS.iter().find(|metric| metric.series().iter().any(|series| series == name));
    let metric = metric.unwrap_or_else(|| panic!("{query}: there is no {name}"));
    let bound = name.ends_with("_bucket").then_some("le");
    let own = selector.matchers.matchers.iter().filter(|matcher| !TARGET.contains(&matcher.name.as_str()));
    for matcher in own {
        if bound == Some(matcher.name.as_str()) {
            check_bound(query, metric, matcher);
            continue;
        }
        let label = metric.labels.iter().find(|label| label.name == matcher.name);
        let label = label.unwrap_or_else(|| panic!("{query}: {name} has no label {}", matcher.name));
        check_values(query, label, matcher);
    }
    metric.labels.iter().map(|label| label.name).chain(bound).collect()
}

/// Returns the labels of a metric that a controller defines.
fn labels_of_controller(name: &str) -> Option<Vec<&'static str>> {
    let mut gauges = CONTROLLERS.iter().flat_map(|controller| (controller.gauges)());
    if let Some(gauge) = gauges.find(|gauge| gauge.name == name) {
        return Some(gauge.labels.iter().map(|(label, _)| *label).collect());
    }
    let histograms = CONTROLLERS.iter().flat_map(|controller| (controller.histograms)());
    let parts = ["_bucket", "_sum", "_count"];
    let is_histogram = histograms
        .into_iter()
        .any(|histogram| name.strip_prefix(histogram.name).is_some_and(|part| parts.contains(&part)));
    is_histogram.then(|| if name.ends_with("_bucket") { vec!["le"] } else { Vec::new() })
}

/// Returns the labels of a metric of the members of PostgresClusters, with that of their PodMonitor.
fn labels_of_instance(name: &str) -> Option<Vec<&'static str>> {
    let metric = postgres_model::metrics::METRICS.iter().find(|metric| metric.name == name)?;
    Some(metric.labels.iter().map(|(label, _)| *label).chain(["postgrescluster"]).collect())
}

/// A requested bucket must exist.
fn check_bound(query: &str, metric: &Metric, matcher: &Matcher) {
    let bound: f64 = matcher.value.parse().unwrap_or_else(|_| panic!("{query}: {matcher} is no bound"));
    let is_bound =
        bound.is_infinite() || metric.bounds.iter().any(|known| known.to_bits() == bound.to_bits());
    assert!(is_bound, "{query}: {bound} is none of the bounds {:?}", metric.bounds);
}

/// If all values of a label are known, a requested value must be one of them.
fn check_values(query: &str, label: &Label, matcher: &Matcher) {
    let known: BTreeSet<&str> = match label.values {
        Values::Controllers => CONTROLLERS.iter().map(|controller| controller.name).collect(),
        Values::These(values) => values().into_iter().collect(),
        Values::Few(_) => return,
    };
    let values: Vec<_> = match &matcher.op {
        MatchOp::Equal | MatchOp::NotEqual => vec![matcher.value.as_str()],
        MatchOp::Re(_) | MatchOp::NotRe(_) => matcher.value.split('|').collect(),
    };
    for value in values.into_iter().filter(|value| *value != ".*") {
        assert!(known.contains(value), "{query}: {} is never {value:?}; known are {known:?}", label.name);
    }
}

/// Selectors and groupings of a query.
#[derive(Default)]
struct Usage {
    selectors: Vec<VectorSelector>,
    /// Labels used for aggregation and matching.
    groupings: BTreeSet<String>,
}

impl ExprVisitor for Usage {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expression: &Expr) -> Result<bool, Self::Error> {
        match expression {
            Expr::VectorSelector(selector) => self.selectors.push(selector.clone()),
            Expr::MatrixSelector(selector) => self.selectors.push(selector.vs.clone()),
            Expr::Aggregate(aggregate) => {
                self.groupings.extend(aggregate.modifier.iter().flat_map(|by| by.labels().labels.clone()));
            }
            Expr::Binary(binary) => {
                let matching = binary.modifier.iter().filter_map(|modifier| modifier.matching.as_ref());
                self.groupings.extend(matching.flat_map(|on| on.labels().labels.clone()));
            }
            _ => {}
        }
        Ok(true)
    }
}

#[test]
fn detects_missing_metrics_labels_and_values() {
    for (query, expected) in [
        ("sum(rate(ensemble_reconciles_total[5m]))", "there is no ensemble_reconciles_total"),
        ("ensemble_queue_wait_seconds", "there is no ensemble_queue_wait_seconds"),
        ("ensemble_queue_depth{name=\"a\"}", "has no label name"),
        ("sum by (name) (ensemble_queue_depth)", "none of its metrics has a label name"),
        ("ensemble_reconcile_total{result=\"error\"}", "result is never \"error\""),
        ("ensemble_reconcile_total{result=~\"done|error\"}", "result is never \"error\""),
        ("ensemble_leader{controller=\"unknown\"}", "controller is never \"unknown\""),
        ("ensemble_admission_duration_seconds_bucket{le=\"0.7\"}", "0.7 is none of the bounds"),
        ("ensemble_postgres_cluster_size{name=\"a\"}", "has no label name"),
        ("ensemble_postgres_connections{name=\"a\"}", "has no label name"),
        ("ensemble_postgres_failover_seconds", "there is no ensemble_postgres_failover_seconds"),
        ("absent(nothing)", "there is no nothing"),
        ("sum(", "sum("),
    ] {
        let wrong = std::panic::catch_unwind(|| check(query)).expect_err(query);
        let wrong = wrong.downcast_ref::<String>().unwrap();
        assert!(wrong.contains(expected), "{query}: {wrong}");
    }
}
