use std::collections::BTreeSet;

use http::Request;
use operator_core::metrics::{Gauge, Histogram};

use super::*;
use crate::metrics::reference::{Kind, METRICS};

/// Returns a meter that has recorded every event once.
fn exercised() -> Meter {
    let meter = Meter::new("1.2.3", ["podset"]);
    let took = Duration::from_millis(20);
    meter.reconciled("podset", ReconcileResult::Failed, took);
    meter.dequeued("podset", took);
    meter.queue("podset", Box::new(|| 7));
    let request = RequestInfo::of(&Request::get("/api/v1/namespaces/shop/pods/cart").body(()).unwrap());
    meter.requested(&request, Some(404), took);
    meter.requested(&request, None, took);
    meter.retried(429);
    meter.informers(Box::new(|| vec![("Pod".to_owned(), 2), ("Pod".to_owned(), 3)]));
    meter.watch_restarted("Pod", WatchRestart::Listed);
    meter.reviewed("/validate/podset", ReviewResult::Denied, took);
    meter.restarted("podset");
    meter.leading("podset", true);
    meter.certificate(Certificate::Serving, Timestamp::from_second(1_800_000_000).unwrap());
    meter
}

/// Returns the samples: series and value.
fn samples(text: &str) -> Vec<(&str, &str)> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap()).collect()
}

fn value<'t>(text: &'t str, series: &str) -> Option<&'t str> {
    samples(text).into_iter().find(|(name, _)| *name == series).map(|(_, value)| value)
}

/// Returns the name of a series and the names of its labels, without `le`.
fn shape(series: &str) -> (String, Vec<String>) {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}').split(',').filter_map(|label| label.split_once('='));
    (name.to_owned(), labels.map(|(label, _)| label.to_owned()).filter(|label| label != "le").collect())
}

#[test]
fn exports_all_metrics_of_reference() {
    let text = exercised().encode().unwrap();
    let exported: BTreeSet<_> = samples(&text).into_iter().map(|(series, _)| shape(series)).collect();
    let referenced: BTreeSet<_> = METRICS
        .iter()
        .flat_map(|metric| {
            let labels: Vec<_> = metric.labels.iter().map(|label| label.name.to_owned()).collect();
            metric.series().into_iter().map(move |name| (name, labels.clone()))
        })
        .collect();
    assert_eq!(exported, referenced);
    for metric in METRICS {
        let (family, kind) = (metric.family(), metric.kind.as_str());
        assert!(text.contains(&format!("# TYPE {family} {kind}\n")), "{family}");
        assert!(text.contains(&format!("# HELP {family} {}\n", metric.sentence())), "{family}");
        let unit = metric.unit.map(|unit| format!("# UNIT {family} {}\n", unit.as_str()));
        assert!(unit.is_none_or(|unit| text.contains(&unit)), "{family}");
        assert_eq!(metric.bounds.is_empty(), metric.kind != Kind::Histogram, "{family}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn records_events() {
    let text = exercised().encode().unwrap();
    for (series, expected) in [
        (r#"ensemble_build_info{version="1.2.3"}"#, "1"),
        (r#"ensemble_reconcile_total{controller="podset",result="failed"}"#, "1"),
        (r#"ensemble_reconcile_duration_seconds_bucket{le="0.01",controller="podset"}"#, "0"),
        (r#"ensemble_reconcile_duration_seconds_bucket{le="0.025",controller="podset"}"#, "1"),
        (r#"ensemble_queue_depth{controller="podset"}"#, "7"),
        (r#"ensemble_api_requests_total{verb="get",resource="pods",code="404"}"#, "1"),
        (r#"ensemble_api_requests_total{verb="get",resource="pods",code="none"}"#, "1"),
        (r#"ensemble_api_request_retries_total{code="429"}"#, "1"),
        (r#"ensemble_informer_objects{kind="Pod"}"#, "5"),
        (r#"ensemble_watch_restarts_total{kind="Pod",reason="listed"}"#, "1"),
        (r#"ensemble_admission_reviews_total{webhook="/validate/podset",result="denied"}"#, "1"),
        (r#"ensemble_controller_restarts_total{controller="podset"}"#, "1"),
        (r#"ensemble_leader{controller="podset"}"#, "1"),
        (r#"ensemble_certificate_expiry_timestamp_seconds{certificate="serving"}"#, "1800000000"),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series} in:\n{text}");
    }
}

#[test]
fn series_of_controllers_exist_from_start() {
    let text = Meter::new("1.2.3", ["podset", "tenant"]).encode().unwrap();
    for series in [
        r#"ensemble_reconcile_total{controller="tenant",result="panicked"}"#,
        r#"ensemble_reconcile_duration_seconds_count{controller="podset"}"#,
        r#"ensemble_leader_transitions_total{controller="podset"}"#,
        r#"ensemble_leader{controller="tenant"}"#,
        r#"ensemble_controller_restarts_total{controller="tenant"}"#,
    ] {
        assert_eq!(value(&text, series), Some("0"), "{series}");
    }
}

#[test]
fn counts_only_leadership_transitions() {
    let meter = Meter::new("1.2.3", ["podset"]);
    for leads in [true, true, false, false, true] {
        meter.leading("podset", leads);
    }
    let text = meter.encode().unwrap();
    assert_eq!(value(&text, r#"ensemble_leader_transitions_total{controller="podset"}"#), Some("2"));
}

#[test]
fn unknown_resources_do_not_create_unbounded_series() {
    let meter = Meter::new("1.2.3", []);
    for number in 0..1000 {
        let uri = format!("/apis/group-{number}/v1/things");
        meter.requested(&RequestInfo::of(&Request::get(uri).body(()).unwrap()), Some(200), Duration::ZERO);
    }
    let text = meter.encode().unwrap();
    let series =
        samples(&text).into_iter().filter(|(series, _)| series.starts_with("ensemble_api_requests_total"));
    assert!(series.count() < 200);
    let other = r#"ensemble_api_requests_total{verb="list",resource="other",code="200"}"#;
    assert!(value(&text, other).is_some(), "{text}");
}

#[test]
fn reads_gauges_of_controller_on_scrape() {
    static SIZE: Gauge = Gauge {
        name: "shop_size",
        help: "How large it is",
        labels: &[("shop", "its name"), ("part", "of it")],
    };
    let meter = Meter::new("1.2.3", ["podset"]);
    let size = Arc::new(std::sync::atomic::AtomicU32::new(1));
    let read = size.clone();
    meter.gauges(
        "podset",
        Box::new(move || {
            let values = vec!["corner".to_owned(), "a \"b\"".to_owned()];
            vec![GaugeSamples {
                gauge: &SIZE,
                series: vec![(values, f64::from(read.load(std::sync::atomic::Ordering::Relaxed)) / 2.0)],
            }]
        }),
    );
    let series = r#"shop_size{shop="corner",part="a \"b\""}"#;
    assert_eq!(value(&meter.encode().unwrap(), series), Some("0.5"));
    size.store(3, std::sync::atomic::Ordering::Relaxed);
    let text = meter.encode().unwrap();
    assert_eq!(value(&text, series), Some("1.5"));
    assert!(text.contains("# HELP shop_size How large it is.\n# TYPE shop_size gauge\n"), "{text}");
}

#[test]
fn histogram_of_controller_counts_over_its_runs() {
    static DURATION: Histogram =
        Histogram { name: "shop_seconds", help: "How long it is open", bounds: &[1.0, 10.0] };
    let meter = Meter::new("1.2.3", ["podset"]);
    let count = || value(&meter.encode().unwrap(), "shop_seconds_count").map(str::to_owned);
    assert_eq!(count(), None);
    meter.histogram(&DURATION)(Duration::from_secs(3));
    meter.histogram(&DURATION)(Duration::from_secs(30));
    assert_eq!(count().as_deref(), Some("2"));
    let text = meter.encode().unwrap();
    assert_eq!(value(&text, r#"shop_seconds_bucket{le="10.0"}"#), Some("1"));
    assert!(text.contains("# TYPE shop_seconds histogram\n"), "{text}");
}
