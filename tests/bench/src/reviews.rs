//! Admission reviews: CPU time and latency.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use capsule::Tenant;
use clap::Args;
use cluster::{Cluster, Options, program::workspace, reserve_address, usage::cpu, wait::eventually};
use futures::{StreamExt, TryStreamExt, stream};
use harness::hostile_reviews::{Sender, WebhookServer};
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use local_manager::launch::{launch_with_flags, prepare};
use manager::NAMESPACE;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::{TIMEOUT, figures};

#[derive(Args)]
pub(crate) struct Reviews {
    /// Number of admission reviews to send at the same time, and again one after the other
    #[arg(long, default_value_t = 20_000)]
    reviews: usize,
}

/// Concurrent reviews while CPU time is measured.
pub(crate) const CONCURRENCY: usize = 16;
/// Number of reviews for warm-up.
pub(crate) const WARM_UP: usize = 2000;
/// Histogram bound for the duration of a review inside the manager, in seconds.
const BOUND: &str = "0.002";
/// Path of the webhook for Tenants.
pub(crate) const PATH: &str = "/tenant/tenants";
/// Namespace of the Pods in reviews.
const POD_NAMESPACE: &str = "bench-dev";

impl Reviews {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        prepare(&cluster).await?;
        let [webhooks, metrics] = [reserve_address()?, reserve_address()?];
        let flags = [
            "--health-probe-bind-address=0".to_owned(),
            format!("--webhook-bind-address={webhooks}"),
            "--webhook-host=127.0.0.1".to_owned(),
            format!("--metrics-bind-address={metrics}"),
            "--metrics-secure=false".to_owned(),
        ];
        let running = launch_with_flags(&cluster, program, &flags).await?;
        let sender = eventually("the manager to serve its webhooks", TIMEOUT, async || {
            Ok(Some(WebhookServer::local(webhooks, authority(&cluster).await?).connect().await?))
        })
        .await?;

        create_tenant(&cluster).await?;
        for target in [Target::tenants()?].into_iter().chain(Target::pods()) {
            measure(&sender, running.pid(), &target, self.reviews).await?;
            let within = share_within(&scrape(metrics).await?, target.path)?;
            let figure = format!("{} reviews within 2 ms, inside the manager", target.name);
            figures::print(&figure, within * 100.0, "%");
        }
        running.stop()?;
        cluster.stop()
    }
}

/// A webhook, and a review for it.
struct Target {
    /// What is reviewed, for the figures.
    name: &'static str,
    path: &'static str,
    review: Bytes,
}

impl Target {
    fn tenants() -> Result<Self> {
        Ok(Self { name: "admission", path: PATH, review: review()? })
    }

    /// Returns the webhooks for Pods in a Tenant with all checks.
    fn pods() -> [Self; 2] {
        let review = Bytes::from(pod_review().to_string());
        [
            Self { name: "validating Pod", path: "/tenant/pods", review: review.clone() },
            Self { name: "mutating Pod", path: "/tenant/pod-defaults", review },
        ]
    }
}

async fn measure(sender: &Sender, pid: u32, target: &Target, reviews: usize) -> Result<()> {
    let Target { name, path, review } = target;
    send(sender, path, review, WARM_UP, CONCURRENCY).await?;
    let (spent, began) = (cpu(pid)?, Instant::now());
    send(sender, path, review, reviews, CONCURRENCY).await?;
    let count = figures::count(reviews);
    let (spent, took) = (cpu(pid)?.saturating_sub(spent), began.elapsed());
    figures::print(
        &format!("{name} reviews, per second of CPU time"),
        count / spent.as_secs_f64(),
        "reviews",
    );
    figures::print(&format!("{name} reviews, per second"), count / took.as_secs_f64(), "reviews");
    // One after the other. A burst of another process is a small part of all, as it is of any second.
    let mut times = send(sender, path, review, reviews, 1).await?;
    times.sort();
    for (label, percent) in [("median", 50), ("99th percentile", 99)] {
        let figure = format!("{name} review, latency at the client, {label}");
        figures::print(&figure, figures::percentile(&times, percent), "ms");
    }
    Ok(())
}

/// Creates a Tenant that uses every check of Pods, and its namespace.
async fn create_tenant(cluster: &Cluster) -> Result<()> {
    let spec = json!({
        "containerRegistries": { "allowed": ["docker.io", "quay.io"], "allowedRegex": "^registry\\.[a-z]+\\.example$" },
        "imagePullPolicies": ["Always", "IfNotPresent"],
        "priorityClasses": { "allowed": ["low", "high"], "allowedRegex": "^tenant-" },
        "runtimeClasses": { "allowed": ["runc"], "default": "runc" },
        "podOptions": { "additionalMetadata": { "labels": { "team": "oil" }, "annotations": { "cost": "7" } } },
    });
    let tenant = json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": { "name": "bench" }, "spec": spec,
    });
    cluster.apply_yaml(&tenant.to_string()).await?;
    let created = Api::<Tenant>::all(cluster.client().await?).get("bench").await?;
    let reference = json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": "bench", "uid": created.metadata.uid,
    });
    let labels = json!({ "capsule.clastix.io/tenant": "bench" });
    let metadata = json!({ "name": POD_NAMESPACE, "labels": labels, "ownerReferences": [reference] });
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    cluster.apply_yaml(&namespace.to_string()).await?;
    Ok(())
}

/// Returns the review of the creation of a Pod, as the API server sends it for a Deployment.
fn pod_review() -> Value {
    let container = |name: &str, image: &str| {
        json!({
            "name": name, "image": image, "imagePullPolicy": "IfNotPresent",
            "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
            "env": [{ "name": "LEVEL", "value": "info" }, { "name": "REGION", "value": "north" }],
            "resources": { "limits": { "cpu": "1", "memory": "256Mi" }, "requests": { "cpu": "100m", "memory": "64Mi" } },
            "volumeMounts": [{ "name": "token", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" }],
            "readinessProbe": { "httpGet": { "path": "/healthz", "port": "http", "scheme": "HTTP" }, "periodSeconds": 10 },
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "web-5c689d88bb-", "namespace": POD_NAMESPACE,
            "labels": { "app": "web", "pod-template-hash": "5c689d88bb" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5c689d88bb", "uid": "1",
                "controller": true, "blockOwnerDeletion": true }],
        },
        "spec": {
            "initContainers": [container("migrate", "docker.io/library/busybox:1.37")],
            "containers": [container("web", "quay.io/shop/web:2.1"), container("proxy", "registry.north.example/proxy:1")],
            "volumes": [{ "name": "token", "projected": { "defaultMode": 420, "sources": [
                { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            ] } }],
            "priorityClassName": "tenant-normal", "priority": 100, "runtimeClassName": "runc",
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "serviceAccountName": "default", "securityContext": {}, "terminationGracePeriodSeconds": 30,
        },
        "status": {},
    });
    let user = json!({ "username": "system:serviceaccount:kube-system:replicaset-controller" });
    create_review(["", "v1", "Pod", "pods"], &json!({ "namespace": POD_NAMESPACE, "userInfo": user }), &pod)
}

/// Returns the review of a create. `kind` is group, version, kind, and plural of the object.
fn create_review(kind: [&str; 4], request: &Value, object: &Value) -> Value {
    let [group, version, kind, resource] = kind;
    let mut all = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": { "group": group, "version": version, "kind": kind },
        "resource": { "group": group, "version": version, "resource": resource },
        "operation": "CREATE",
        "object": object,
        "oldObject": null,
        "dryRun": false,
        "options": { "apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions" },
    });
    if let (Some(all), Some(request)) = (all.as_object_mut(), request.as_object()) {
        all.extend(request.clone());
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": all })
}

/// Returns the review of the creation of the sample Tenant.
pub(crate) fn review() -> Result<Bytes> {
    let user = json!({ "username": "admin", "groups": ["system:masters", "system:authenticated"] });
    let request = json!({ "name": "oil", "userInfo": user });
    let kind = ["capsule.clastix.io", "v1beta2", "Tenant", "tenants"];
    Ok(Bytes::from(create_review(kind, &request, &sample()?).to_string()))
}

/// Returns the sample Tenant.
pub(crate) fn sample() -> Result<Value> {
    let sample = std::fs::read_to_string(workspace().join("samples/tenant.yaml"))?;
    serde_saphyr::from_str(&sample).context("samples/tenant.yaml is not valid YAML")
}

/// Returns the CA certificate of the manager's serving certificate.
pub(crate) async fn authority(cluster: &Cluster) -> Result<Vec<u8>> {
    let secrets = Api::<Secret>::namespaced(cluster.client().await?, NAMESPACE);
    let secret = secrets.get("ensemble-certificates").await?;
    let bundle = secret.data.and_then(|mut data| data.remove("ca.crt"));
    Ok(bundle.context("the Secret ensemble-certificates has no key ca.crt")?.0)
}

/// Sends reviews to a path, and returns the duration of each.
pub(crate) async fn send(
    sender: &Sender,
    path: &str,
    review: &Bytes,
    count: usize,
    concurrency: usize,
) -> Result<Vec<Duration>> {
    let send_one = |_| async {
        let began = Instant::now();
        let request = Request::post(format!("https://127.0.0.1{path}"))
            .header("content-type", "application/json")
            .header("content-length", review.len())
            .body(Full::new(review.clone()))?;
        let response = sender.clone().send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(
            status == StatusCode::OK,
            "unexpected status {status} of the review: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(began.elapsed())
    };
    stream::iter(0..count).map(send_one).buffer_unordered(concurrency).try_collect().await
}

/// Returns the metrics of the manager.
async fn scrape(address: SocketAddr) -> Result<String> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request =
        Request::get("/metrics").header("host", address.to_string()).body(Full::<Bytes>::default())?;
    let body = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec())?)
}

/// Returns the share of the reviews of a webhook that took no longer than the bound.
fn share_within(metrics: &str, path: &str) -> Result<f64> {
    let webhook = format!("webhook=\"{path}\"");
    let value = |series: &str, label: &str| {
        let mut lines = metrics.lines().filter(|line| line.starts_with(series) && line.contains(label));
        let line = lines.find(|line| line.contains(&webhook))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let series = "ensemble_admission_duration_seconds";
    let within = value(&format!("{series}_bucket"), &format!("le=\"{BOUND}\""));
    let all = value(&format!("{series}_count"), "");
    let (within, all) =
        within.zip(all).with_context(|| format!("the metrics have no durations of reviews of {path}"))?;
    Ok(within / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_within_reads_histogram() {
        let metrics = "ensemble_admission_duration_seconds_count{webhook=\"/tenant/tenants-of-others\"} 9\n\
                       ensemble_admission_duration_seconds_bucket{le=\"0.001\",webhook=\"/tenant/tenants\"} 1\n\
                       ensemble_admission_duration_seconds_bucket{le=\"0.002\",webhook=\"/tenant/tenants\"} 3\n\
                       ensemble_admission_duration_seconds_count{webhook=\"/tenant/tenants\"} 4\n";
        assert!((share_within(metrics, PATH).unwrap() - 0.75).abs() < f64::EPSILON);
        assert!(share_within("", PATH).is_err());
    }

    #[test]
    fn review_contains_sample_tenant() {
        assert!(review().unwrap().len() > 1000);
    }
}
