//! Traces of a running manager.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod collector;

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use cluster::{Cluster, Companion, wait::eventually};
use collector::{Collector, Traces};

const MANAGER: &str = env!("CARGO_BIN_EXE_ensemble-manager");
/// Timeout on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);
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

/// Creates a PodSet and waits until it is Ready.
async fn create_podset(cluster: &Cluster) {
    eventually("the CustomResourceDefinition to be served", TIMEOUT, async || {
        cluster.apply_yaml(POD_SET).await.map(|_| true)
    })
    .await
    .unwrap();
    let wait = ["wait", "--for=condition=Ready", "podset/traced", "--timeout=60s"];
    cluster.kubectl(&wait).await.unwrap();
}

// The collector needs a thread while the test waits for the manager to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_child_spans_of_their_reconcile() {
    let collector = Collector::start().await;
    let cluster = cluster::isolated().await.unwrap();
    let manager = start(&cluster, &collector.endpoint());
    create_podset(&cluster).await;
    // The manager exports the remaining spans when it stops.
    manager.stop().unwrap();

    let traces = collector.traces();
    assert_eq!(traces.resource("service.name"), ["ensemble-manager"]);
    let creates = traces.spans("request", &[("verb", "create"), ("resource", "pods"), ("code", "201")]);
    assert_eq!(creates.len(), 2, "two Pods were created: {traces:?}");
    for create in creates {
        let reconcile = traces.parent(create).expect("the parent is a reconcile");
        assert_eq!(reconcile.name, "reconcile");
        assert_eq!(reconcile.trace_id, create.trace_id);
        for (key, value) in [
            ("controller", "podset"),
            ("namespace", "default"),
            ("name", "traced"),
            ("generation", "1"),
            ("outcome", "done"),
        ] {
            assert_eq!(Traces::attribute(reconcile, key).as_deref(), Some(value), "{key} of {reconcile:?}");
        }
    }
    // Watches and the installation of CustomResourceDefinitions have no spans.
    assert!(traces.spans("request", &[]).iter().all(|span| traces.parent(span).is_some()), "{traces:?}");
}

#[tokio::test]
async fn unreachable_collector_is_logged_once() {
    let unused = cluster::reserve_address().unwrap();
    let cluster = cluster::isolated().await.unwrap();
    let manager = start(&cluster, &format!("http://{unused}"));
    create_podset(&cluster).await;
    let log = manager.log().to_owned();
    let warnings =
        || std::fs::read_to_string(&log).unwrap().matches("cannot send traces to the collector;").count();
    eventually("a warning", TIMEOUT, async || Ok(warnings() > 0)).await.unwrap();
    let began = Instant::now();
    manager.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(8), "the manager took {:?} to stop", began.elapsed());
    assert_eq!(warnings(), 1);
    assert!(std::fs::read_to_string(&log).unwrap().contains("the manager has stopped"));
}

#[test]
fn rejects_invalid_endpoint() {
    let output = Command::new(MANAGER).args(["--otlp-endpoint", "collector:4318"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.contains("use one such as http://collector:4318"), "{stderr}");
}
