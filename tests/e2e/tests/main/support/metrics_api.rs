//! A metrics API with load values that a test sets.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::{Path, RawQuery, State},
    http::{Request, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use cluster::wait::eventually;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{Client, ResourceExt, core::ObjectList};
use operator_runtime::https::{self, Identity};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{NAMESPACE, PATIENCE, TestEnv};

/// Serves `metrics.k8s.io/v1beta1` for the selected Pods, as metrics-server does. The running Pods
/// of a namespace share its load equally.
pub(crate) struct MetricsApi {
    load: Load,
    _stop: DropGuard,
}

/// Load of each namespace in millicores.
type Load = Arc<Mutex<BTreeMap<String, usize>>>;

#[derive(Clone)]
struct ServerState {
    client: Client,
    load: Load,
}

impl MetricsApi {
    /// Starts the server and waits until the API server proxies requests to it. Dropping it stops
    /// the server.
    pub(crate) async fn start(env: &TestEnv) -> Self {
        let load = Load::default();
        let figures = ServerState { client: env.cluster.client().await.unwrap(), load: load.clone() };
        let router = Router::new()
            .route("/apis/metrics.k8s.io/v1beta1", get(resources))
            .route("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods", get(pods))
            .with_state(figures);
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let identity = Identity::default();
        identity.set(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes()).unwrap();
        let stop = CancellationToken::new();
        let server =
            https::serve(([127, 0, 0, 1], 0).into(), router, identity, 64, stop.clone()).await.unwrap();
        register(env, server.address.port()).await;
        Self { load, _stop: stop.drop_guard() }
    }

    /// Sets the total load of a namespace's Pods.
    pub(crate) fn load(&self, namespace: &str, millicores: usize) {
        self.load.lock().unwrap().insert(namespace.to_owned(), millicores);
    }
}

/// Registers the APIService. Its Service is an external name of this machine.
async fn register(env: &TestEnv, port: u16) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "metrics", "namespace": NAMESPACE },
        "spec": { "type": "ExternalName", "externalName": "localhost", "ports": [{ "port": port }] },
    });
    let name = "v1beta1.metrics.k8s.io";
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": name },
        "spec": {
            "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": { "name": "metrics", "namespace": NAMESPACE, "port": port },
        },
    });
    env.cluster.apply_yaml(&service.to_string()).await.unwrap();
    env.cluster.apply_yaml(&api.to_string()).await.unwrap();
    eventually("the metrics API to be available", PATIENCE, async || {
        let conditions = env.read(&["get", "apiservice", name]).await["status"]["conditions"].clone();
        let is_available = |one: &Value| one["type"] == "Available" && one["status"] == "True";
        let available = conditions.as_array().is_some_and(|all| all.iter().any(is_available));
        Ok(if available { Ok(()) } else { Err(conditions) })
    })
    .await
    .unwrap();
}

async fn resources() -> impl IntoResponse {
    answer(&json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1",
        "resources": [{
            "name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"],
        }],
    }))
}

async fn pods(
    State(figures): State<ServerState>,
    Path(namespace): Path<String>,
    RawQuery(query): RawQuery,
) -> impl IntoResponse {
    // Passes the label selector on unchanged.
    let uri = format!("/api/v1/namespaces/{namespace}/pods?{}", query.unwrap_or_default());
    let selected =
        figures.client.request::<ObjectList<Pod>>(Request::get(uri).body(Vec::new()).unwrap()).await;
    let running: Vec<_> = selected.unwrap().items.into_iter().filter(is_running).collect();
    let load = figures.load.lock().unwrap().get(&namespace).copied().unwrap_or_default();
    let each = format!("{}m", load.checked_div(running.len()).unwrap_or_default());
    let items: Vec<_> = running
        .iter()
        .map(|pod| {
            json!({
                "metadata": { "name": pod.name_any(), "namespace": namespace },
                "timestamp": Timestamp::now().to_string(), "window": "1s",
                "containers": [{ "name": "main", "usage": { "cpu": each, "memory": "1Mi" } }],
            })
        })
        .collect();
    answer(&json!({
        "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items,
    }))
}

fn answer(body: &Value) -> impl IntoResponse + use<> {
    ([(CONTENT_TYPE, "application/json")], body.to_string())
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
}
