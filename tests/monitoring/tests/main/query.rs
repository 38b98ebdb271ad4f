//! Whether a query asks for metrics that there are, by labels that they have.

use std::collections::{BTreeSet, HashSet};

use manager::CONTROLLERS;
use operator_runtime::metrics::reference::{Label, METRICS, Metric, Values};
use promql_parser::{
    label::{MatchOp, Matcher},
    parser::{Expr, VectorSelector, parse},
    util::{ExprVisitor, walk_expr},
};

/// What Prometheus itself adds to every series.
const TARGET: [&str; 4] = ["job", "namespace", "pod", "instance"];

/// Holds a query to asking for nothing that there is not.
pub(crate) fn check(query: &str) {
    let expression = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut seen = Seen::default();
    walk_expr(&mut seen, &expression).unwrap();
    assert!(!seen.selectors.is_empty(), "{query}: asks for nothing");
    let mut labels: HashSet<&str> = TARGET.into();
    for selector in &seen.selectors {
        labels.extend(check_selector(query, selector));
    }
    for label in &seen.groupings {
        assert!(labels.contains(label.as_str()), "{query}: none of its metrics has a label {label}");
    }
}

/// The labels of the metric that is selected.
fn check_selector(query: &str, selector: &VectorSelector) -> Vec<&'static str> {
    let name = selector.name.as_deref().unwrap_or_else(|| panic!("{query}: a selector without a name"));
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

/// A bucket that is asked for has to be one.
fn check_bound(query: &str, metric: &Metric, matcher: &Matcher) {
    let asked: f64 = matcher.value.parse().unwrap_or_else(|_| panic!("{query}: {matcher} is no bound"));
    let is_bound =
        asked.is_infinite() || metric.bounds.iter().any(|bound| bound.to_bits() == asked.to_bits());
    assert!(is_bound, "{query}: {asked} is none of the bounds {:?}", metric.bounds);
}

/// Where all values of a label are known, every word that is asked for has to be one of them.
fn check_values(query: &str, label: &Label, matcher: &Matcher) {
    let known: BTreeSet<&str> = match label.values {
        Values::Controllers => CONTROLLERS.iter().map(|controller| controller.name).collect(),
        Values::These(values) => values().into_iter().collect(),
        Values::Few(_) => return,
    };
    let words: Vec<_> = match &matcher.op {
        MatchOp::Equal | MatchOp::NotEqual => vec![matcher.value.as_str()],
        MatchOp::Re(_) | MatchOp::NotRe(_) => matcher.value.split('|').collect(),
    };
    for word in words.into_iter().filter(|word| *word != ".*") {
        assert!(known.contains(word), "{query}: {} is never {word:?}; known are {known:?}", label.name);
    }
}

/// What a query asks for.
#[derive(Default)]
struct Seen {
    selectors: Vec<VectorSelector>,
    /// The labels that it sums and matches by.
    groupings: BTreeSet<String>,
}

impl ExprVisitor for Seen {
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
fn what_there_is_not_is_found() {
    for (query, says) in [
        ("sum(rate(ensemble_reconciles_total[5m]))", "there is no ensemble_reconciles_total"),
        ("ensemble_queue_wait_seconds", "there is no ensemble_queue_wait_seconds"),
        ("ensemble_queue_depth{name=\"a\"}", "has no label name"),
        ("sum by (name) (ensemble_queue_depth)", "none of its metrics has a label name"),
        ("ensemble_reconcile_total{result=\"error\"}", "result is never \"error\""),
        ("ensemble_reconcile_total{result=~\"done|error\"}", "result is never \"error\""),
        ("ensemble_leader{controller=\"nobody\"}", "controller is never \"nobody\""),
        ("ensemble_admission_duration_seconds_bucket{le=\"0.7\"}", "0.7 is none of the bounds"),
        ("absent(nothing)", "there is no nothing"),
        ("sum(", "sum("),
    ] {
        let wrong = std::panic::catch_unwind(|| check(query)).expect_err(query);
        let wrong = wrong.downcast_ref::<String>().unwrap();
        assert!(wrong.contains(says), "{query}: {wrong}");
    }
}
