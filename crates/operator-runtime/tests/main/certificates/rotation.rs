//! Rotation while the API server continuously calls a webhook.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use cluster::wait::eventually;
use futures::{StreamExt, future::join_all, join, pin_mut};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api,
    api::PostParams,
    core::ObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use operator_core::error::chain;
use operator_runtime::certificates::{CaBundleTarget, Lifetimes, SECRET, Source};
use serde_json::json;

use super::{
    replica::Replica,
    support::{SecretContents, TIMEOUT, TestEnv},
};

/// Lifetime of certificates, short enough for several rotations. An authority is trusted for 2 s
/// before it signs.
const LIFETIME: Duration = Duration::from_secs(24);
/// Number of concurrent clients.
const CLIENTS: usize = 4;
/// Number of requests after the last rotation.
const REQUESTS_AFTER_ROTATION: usize = 300;
/// Timeout of the rotations.
const ROTATION_TIMEOUT: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admission_succeeds_during_rotation() {
    let env = TestEnv::new(|namespace| vec![CaBundleTarget::Validating(namespace.to_owned())]).await;
    let source = Source::Managed(Lifetimes::new(LIFETIME, LIFETIME).unwrap());
    // The API server calls the first replica. Both rotate the Secret.
    let replicas = [env.replica(source).await, env.replica(source).await];
    env.register_webhook(&format!("https://{}/validate", replicas[0].address)).await;
    env.until_webhook_called(&replicas[0]).await;

    let stop = AtomicBool::new(false);
    let requests = AtomicUsize::new(0);
    let (failures, seen) =
        join!(join_all((0..CLIENTS).map(|number| env.send_until(&stop, &requests, number))), async {
            let seen = tokio::time::timeout(ROTATION_TIMEOUT, env.rotations()).await;
            // Requests with the last certificate, too.
            let enough = requests.load(Ordering::Relaxed) + REQUESTS_AFTER_ROTATION;
            let has_enough = async || Ok(requests.load(Ordering::Relaxed) >= enough);
            eventually("some more admissions", TIMEOUT, has_enough).await.unwrap();
            stop.store(true, Ordering::Relaxed);
            seen
        });
    let Rotations { authorities, certificates, dropped } = seen.expect("two rotations must complete in time");
    let requests = requests.load(Ordering::Relaxed);
    println!(
        "{requests} requests during {} authorities ({dropped} of them removed again) and {} certificates",
        authorities.len(),
        certificates.len()
    );
    let failures: Vec<_> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{} of {requests} failed: {:?}", failures.len(), failures.first());
    assert!(requests > 100 && replicas[0].review_count() >= requests, "{requests}");
    for replica in replicas {
        replica.stop().await;
    }
    let name = env.namespace.to_string();
    env.cluster.kubectl(&["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
}

/// Contents of the Secret over time.
#[derive(Default)]
struct Rotations {
    authorities: HashSet<Vec<u8>>,
    certificates: HashSet<Vec<u8>>,
    /// Number of authorities that were removed from the bundle.
    dropped: usize,
}

impl Rotations {
    fn record(&mut self, contents: &SecretContents) {
        self.authorities.extend(contents.authorities.iter().map(|authority| authority.to_vec()));
        self.certificates.extend(contents.serving.iter().map(|serving| serving.to_vec()));
        self.dropped = self.authorities.len() - contents.authorities.len();
    }

    /// Returns whether two authorities have replaced the first, both have signed, and the first is
    /// removed.
    fn are_complete(&self) -> bool {
        self.authorities.len() >= 3 && self.certificates.len() >= 3 && self.dropped >= 1
    }
}

impl TestEnv {
    /// Registers a webhook that fails closed for every ConfigMap of the namespace.
    async fn register_webhook(&self, url: &str) {
        let name = self.namespace.name();
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": name },
            "webhooks": [{
                "name": "rotation.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": { "url": url },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
            }],
        });
        let configuration: ValidatingWebhookConfiguration = serde_json::from_value(configuration).unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &configuration).await.unwrap();
    }

    async fn try_create(&self, name: &str) -> Result<(), String> {
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let object = ConfigMap { metadata, ..ConfigMap::default() };
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        api.create(&dry_run, &object).await.map(drop).map_err(|error| chain(&error))
    }

    /// Waits until the API server calls the webhook.
    async fn until_webhook_called(&self, replica: &Replica) {
        let called = eventually("the webhook to be called", TIMEOUT, async || {
            let result = self.try_create("first").await;
            Ok(if result.is_ok() && replica.review_count() > 0 { Ok(()) } else { Err(result) })
        });
        called.await.unwrap();
    }

    /// Sends requests until `stop`. Returns the errors.
    async fn send_until(&self, stop: &AtomicBool, requests: &AtomicUsize, number: usize) -> Vec<String> {
        let mut failures = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            requests.fetch_add(1, Ordering::Relaxed);
            failures.extend(self.try_create(&format!("request-{number}")).await.err());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        failures
    }

    /// Watches the Secret until the rotations are complete.
    async fn rotations(&self) -> Rotations {
        let config = watcher::Config::default().fields(&format!("metadata.name={SECRET}"));
        let secrets = watcher(Api::<Secret>::namespaced(self.client.clone(), &self.namespace), config)
            .default_backoff()
            .applied_objects();
        pin_mut!(secrets);
        let mut rotations = Rotations::default();
        while !rotations.are_complete() {
            let secret = secrets.next().await.unwrap();
            if let Ok(secret) = secret {
                rotations.record(&SecretContents::of(Some(secret)));
            }
        }
        rotations
    }
}
