//! Admission reviews: CPU time and latency.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use cluster::{Cluster, Options, program::workspace, usage::cpu, wait::eventually};
use futures::{StreamExt, TryStreamExt, stream};
use harness::hostile_reviews::{Sender, WebhookServer};
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use local_manager::launch::{free_address, launch_with_flags, prepare};
use manager::NAMESPACE;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::{TIMEOUT, figures};

#[derive(Args)]
pub(crate) struct Reviews {
    /// Number of admission reviews to send
    #[arg(long, default_value_t = 20_000)]
    reviews: usize,
}

/// Concurrent reviews while CPU time is measured.
pub(crate) const CONCURRENCY: usize = 16;
/// Number of reviews for warm-up, and of sequential reviews for latency.
pub(crate) const SEQUENTIAL: usize = 2000;
/// Histogram bound for the duration of a review inside the manager, in seconds.
const BOUND: &str = "0.002";
/// Path of the webhook for Tenants.
const PATH: &str = "/tenant/tenants";

impl Reviews {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        prepare(&cluster).await?;
        let [webhooks, metrics] = [free_address()?, free_address()?];
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

        let review = review()?;
        send(&sender, &review, SEQUENTIAL, CONCURRENCY).await?;
        let (spent, began) = (cpu(running.pid())?, Instant::now());
        send(&sender, &review, self.reviews, CONCURRENCY).await?;
        let count = figures::count(self.reviews);
        let (spent, took) = (cpu(running.pid())?.saturating_sub(spent), began.elapsed());
        figures::print("admission reviews, per second of CPU time", count / spent.as_secs_f64(), "reviews");
        figures::print("admission reviews, per second", count / took.as_secs_f64(), "reviews");
        let mut times = send(&sender, &review, SEQUENTIAL, 1).await?;
        times.sort();
        figures::print(
            "admission review, latency at the client, median",
            figures::percentile(&times, 50),
            "ms",
        );
        figures::print(
            "admission review, latency at the client, 99th percentile",
            figures::percentile(&times, 99),
            "ms",
        );
        let within = share_within(&scrape(metrics).await?)?;
        figures::print("reviews within 2 ms, inside the manager", within * 100.0, "%");
        running.stop()?;
        cluster.stop()
    }
}

/// Returns the review of the creation of the sample Tenant.
pub(crate) fn review() -> Result<Bytes> {
    let object = sample()?;
    let (group, version) = ("capsule.clastix.io", "v1beta2");
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": { "group": group, "version": version, "kind": "Tenant" },
            "resource": { "group": group, "version": version, "resource": "tenants" },
            "name": "oil",
            "operation": "CREATE",
            "userInfo": { "username": "admin", "groups": ["system:masters", "system:authenticated"] },
            "object": object,
            "oldObject": null,
            "dryRun": false,
            "options": { "apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions" },
        },
    });
    Ok(Bytes::from(review.to_string()))
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

/// Sends reviews, and returns the duration of each.
pub(crate) async fn send(
    sender: &Sender,
    review: &Bytes,
    count: usize,
    concurrency: usize,
) -> Result<Vec<Duration>> {
    let send_one = |_| async {
        let began = Instant::now();
        let request = Request::post(format!("https://127.0.0.1{PATH}"))
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

/// Returns the share of the reviews of Tenants that took no longer than the bound.
fn share_within(metrics: &str) -> Result<f64> {
    let value = |series: &str, label: &str| {
        let mut lines = metrics.lines().filter(|line| line.starts_with(series) && line.contains(label));
        let line = lines.find(|line| line.contains(PATH))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let series = "ensemble_admission_duration_seconds";
    let within = value(&format!("{series}_bucket"), &format!("le=\"{BOUND}\""));
    let all = value(&format!("{series}_count"), "");
    let (within, all) = within.zip(all).context("the metrics have no durations of reviews of Tenants")?;
    Ok(within / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_within_reads_histogram() {
        let metrics = "ensemble_admission_duration_seconds_bucket{le=\"0.001\",webhook=\"/tenant/tenants\"} 1\n\
                       ensemble_admission_duration_seconds_bucket{le=\"0.002\",webhook=\"/tenant/tenants\"} 3\n\
                       ensemble_admission_duration_seconds_count{webhook=\"/tenant/tenants\"} 4\n";
        assert!((share_within(metrics).unwrap() - 0.75).abs() < f64::EPSILON);
        assert!(share_within("").is_err());
    }

    #[test]
    fn review_contains_sample_tenant() {
        assert!(review().unwrap().len() > 1000);
    }
}
