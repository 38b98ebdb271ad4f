//! Rotation while the API server asks all the time.

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
    stage::{Held, PATIENCE, Stage},
};

/// Short enough to see several rotations; an authority is trusted for 2 s before it signs.
const LIFE: Duration = Duration::from_secs(24);
/// How many ask at once.
const ASKING: usize = 4;
/// How many more admissions there are after the last rotation.
const AFTERWARDS: usize = 300;
/// How long all of it may take.
const LIMIT: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_admission_fails_while_authorities_and_certificates_are_replaced() {
    let stage = Stage::new(|namespace| vec![CaBundleTarget::Validating(namespace.to_owned())]).await;
    let source = Source::Managed(Lifetimes::new(LIFE, LIFE).unwrap());
    // The API server asks the first; the second takes part in keeping the Secret.
    let replicas = [stage.replica(source).await, stage.replica(source).await];
    stage.guard(&format!("https://{}/validate", replicas[0].address)).await;
    stage.until_guarded(&replicas[0]).await;

    let stop = AtomicBool::new(false);
    let asked = AtomicUsize::new(0);
    let (failures, seen) =
        join!(join_all((0..ASKING).map(|number| stage.ask_until(&stop, &asked, number))), async {
            let seen = tokio::time::timeout(LIMIT, stage.rotations()).await;
            // The last certificate is asked for its worth, too.
            let enough = asked.load(Ordering::Relaxed) + AFTERWARDS;
            let asked_enough = async || Ok(asked.load(Ordering::Relaxed) >= enough);
            eventually("some more admissions", PATIENCE, asked_enough).await.unwrap();
            stop.store(true, Ordering::Relaxed);
            seen
        });
    let Seen { authorities, certificates, dropped } = seen.expect("there should be two rotations in time");
    let asked = asked.load(Ordering::Relaxed);
    println!(
        "{asked} admissions during {} authorities ({dropped} of them dropped again) and {} certificates",
        authorities.len(),
        certificates.len()
    );
    let failures: Vec<_> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{} of {asked} failed: {:?}", failures.len(), failures.first());
    assert!(asked > 100 && replicas[0].asked() >= asked, "{asked}");
    for replica in replicas {
        replica.end().await;
    }
    let name = stage.namespace.to_string();
    stage.cluster.kubectl(&["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
}

/// What was in the Secret.
#[derive(Default)]
struct Seen {
    authorities: HashSet<Vec<u8>>,
    certificates: HashSet<Vec<u8>>,
    /// Authorities that have left the bundle.
    dropped: usize,
}

impl Seen {
    fn take_in(&mut self, held: &Held) {
        self.authorities.extend(held.authorities.iter().map(|authority| authority.to_vec()));
        self.certificates.extend(held.serving.iter().map(|serving| serving.to_vec()));
        self.dropped = self.authorities.len() - held.authorities.len();
    }

    /// Two authorities have followed the first, both sign, and the first is gone.
    fn is_enough(&self) -> bool {
        self.authorities.len() >= 3 && self.certificates.len() >= 3 && self.dropped >= 1
    }
}

impl Stage {
    /// Has the API server ask about each ConfigMap of the namespace, and refuse what nobody answers.
    async fn guard(&self, url: &str) {
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

    /// Waits until the API server asks the webhook and trusts it.
    async fn until_guarded(&self, replica: &Replica) {
        let guarded = eventually("the webhook to be asked and trusted", PATIENCE, async || {
            let answer = self.try_create("first").await;
            Ok(if answer.is_ok() && replica.asked() > 0 { Ok(()) } else { Err(answer) })
        });
        guarded.await.unwrap();
    }

    /// Asks again and again. Returns what failed.
    async fn ask_until(&self, stop: &AtomicBool, asked: &AtomicUsize, number: usize) -> Vec<String> {
        let mut failures = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            asked.fetch_add(1, Ordering::Relaxed);
            failures.extend(self.try_create(&format!("asked-{number}")).await.err());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        failures
    }

    /// Follows the Secret until there were enough rotations.
    async fn rotations(&self) -> Seen {
        let config = watcher::Config::default().fields(&format!("metadata.name={SECRET}"));
        let secrets = watcher(Api::<Secret>::namespaced(self.client.clone(), &self.namespace), config)
            .default_backoff()
            .applied_objects();
        pin_mut!(secrets);
        let mut seen = Seen::default();
        while !seen.is_enough() {
            let secret = secrets.next().await.unwrap();
            if let Ok(secret) = secret {
                seen.take_in(&Held::of(Some(secret)));
            }
        }
        seen
    }
}
