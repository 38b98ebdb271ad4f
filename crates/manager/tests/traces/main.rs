//! Traces of a running manager, as a collector receives them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod collector;

use std::{
    net::TcpListener,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use cluster::{Cluster, Companion, wait::eventually};
use collector::{Collector, Sent};

const MANAGER: &str = env!("CARGO_BIN_EXE_ensemble-manager");
/// Long enough for a busy machine. Nothing that works takes as long.
const PATIENCE: Duration = Duration::from_mins(1);
const POD_SET: &str = "{apiVersion: app.example.com/v1alpha1, kind: PodSet, metadata: {name: traced, namespace: default}, spec: {replicas: 2}}";

fn start(cluster: &Cluster, endpoint: &str) -> Companion {
    let args = [
        "--controllers=podset",
        "--install-crds",
        "--health-probe-bind-address=0",
        "--leader-elect=false",
        "--metrics-bind-address=0",
        "--webhook-bind-address=0",
    ];
    let env = [
        ("KUBECONFIG".to_owned(), cluster.kubeconfig().display().to_string()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), endpoint.to_owned()),
        ("ENSEMBLE_METRICS_BIND_ADDRESS".to_owned(), "0".to_owned()),
    ];
    cluster.companion("traced", Path::new(MANAGER), &args.map(str::to_owned), &env).unwrap()
}

/// Makes a PodSet and waits until it is what it should be.
async fn make(cluster: &Cluster) {
    eventually("the definition to be served", PATIENCE, async || {
        cluster.apply_yaml(POD_SET).await.map(|_| true)
    })
    .await
    .unwrap();
    let wait = ["wait", "--for=condition=Ready", "podset/traced", "--timeout=60s"];
    cluster.kubectl(&wait).await.unwrap();
}

// The collector works while the test waits for the manager's end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconcile_is_a_span_and_its_requests_are_spans_within() {
    let collector = Collector::start().await;
    let cluster = cluster::isolated().await.unwrap();
    let manager = start(&cluster, &collector.endpoint());
    make(&cluster).await;
    // What has not been sent by now is sent when it ends.
    manager.stop().unwrap();

    let sent = collector.sent();
    assert_eq!(sent.resource("service.name"), ["ensemble-manager"]);
    let creates = sent.spans("request", &[("verb", "create"), ("resource", "pods"), ("code", "201")]);
    assert_eq!(creates.len(), 2, "two pods were made: {sent:?}");
    for create in creates {
        let reconcile = sent.parent(create).expect("it was sent for a reconcile");
        assert_eq!(reconcile.name, "reconcile");
        assert_eq!(reconcile.trace_id, create.trace_id);
        for (key, value) in [
            ("controller", "podset"),
            ("namespace", "default"),
            ("name", "traced"),
            ("generation", "1"),
            ("outcome", "done"),
        ] {
            assert_eq!(Sent::attribute(reconcile, key).as_deref(), Some(value), "{key} of {reconcile:?}");
        }
    }
    // Watches and the registration of definitions are work of nobody's.
    assert!(sent.spans("request", &[]).iter().all(|span| sent.parent(span).is_some()), "{sent:?}");
}

#[tokio::test]
async fn a_collector_that_is_away_costs_one_warning() {
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cluster = cluster::isolated().await.unwrap();
    let manager = start(&cluster, &format!("http://{nowhere}"));
    make(&cluster).await;
    let log = manager.log().to_owned();
    let warnings =
        || std::fs::read_to_string(&log).unwrap().matches("cannot send traces to the collector;").count();
    eventually("a warning", PATIENCE, async || Ok(warnings() > 0)).await.unwrap();
    let began = Instant::now();
    manager.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(8), "it waited {:?} for nobody", began.elapsed());
    assert_eq!(warnings(), 1);
    assert!(std::fs::read_to_string(&log).unwrap().contains("the manager has stopped"));
}

#[test]
fn an_address_that_is_none_is_refused() {
    let ended = Command::new(MANAGER).args(["--otlp-endpoint", "collector:4318"]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains("use one such as http://collector:4318"), "{said}");
}
