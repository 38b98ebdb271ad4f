//! `caBundle`, in webhook configurations and in conversions.

use std::time::{Duration, Instant};

use cluster::wait::eventually;
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use operator_core::kind::Kind;
use operator_runtime::certificates::CaBundleTarget;
use serde::Serialize;
use serde_json::{Value, json};

use super::stage::{PATIENCE, Stage};

/// All three sorts, named after the namespace.
fn targets(namespace: &str) -> Vec<CaBundleTarget> {
    vec![
        CaBundleTarget::Validating(namespace.to_owned()),
        CaBundleTarget::Mutating(namespace.to_owned()),
        CaBundleTarget::Conversion(definition(namespace)),
    ]
}

fn definition(namespace: &str) -> String {
    format!("things.{namespace}.example.com")
}

/// Ours by Service, ours by URL, and two of others. They are asked about nothing.
pub(super) fn webhooks(kind: &str, namespace: &str) -> Value {
    let service =
        |namespace: &str, name: &str| json!({ "service": { "namespace": namespace, "name": name } });
    let configs = [
        service(namespace, "ensemble-webhook"),
        json!({ "url": "https://127.0.0.1:1/validate" }),
        service("somewhere", "ensemble-webhook"),
        json!({ "url": "https://example.com/validate" }),
    ];
    let webhook = |(index, config): (usize, &Value)| {
        json!({
            "name": format!("n{index}.example.com"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": config,
            "namespaceSelector": { "matchLabels": { "of": "nobody" } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": namespace },
        "webhooks": configs.iter().enumerate().map(webhook).collect::<Vec<_>>(),
    })
}

fn converted(namespace: &str) -> Value {
    let group = format!("{namespace}.example.com");
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let service = json!({ "namespace": namespace, "name": "ensemble-webhook", "path": "/convert" });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": definition(namespace) },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "plural": "things", "singular": "thing", "kind": "Thing" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
            "conversion": {
                "strategy": "Webhook",
                "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": { "service": service } },
            },
        },
    })
}

impl Stage {
    /// As an administrator applies a manifest, again and again.
    pub(super) async fn apply<K: Kind + Serialize>(&self, name: &str, object: &Value) {
        let params = PatchParams::apply("kubectl").force();
        let api = Api::<K>::all_of(self);
        api.patch(name, &params, &Patch::Apply(object)).await.unwrap();
    }

    /// What stands at these places when they all are as the bundle; how long that took.
    pub(super) async fn until_trusted<K: Kind + Serialize>(
        &self,
        name: &str,
        ours: &[&str],
        bundle: &[u8],
    ) -> Duration {
        let expected = json!(k8s_openapi::ByteString(bundle.to_vec()));
        let began = Instant::now();
        eventually("caBundle to be the bundle", PATIENCE, async || {
            let object = serde_json::to_value(Api::<K>::all_of(self).get(name).await?)?;
            let held: Vec<_> = ours.iter().map(|place| object.pointer(place).cloned()).collect();
            Ok(if held.iter().all(|held| held.as_ref() == Some(&expected)) { Ok(()) } else { Err(held) })
        })
        .await
        .unwrap();
        began.elapsed()
    }

    /// As somebody with a shell does it.
    async fn strip(&self, kind: &str, name: &str, places: &[&str]) {
        let removals: Vec<_> = places.iter().map(|place| json!({ "op": "remove", "path": place })).collect();
        let removals = json!(removals).to_string();
        self.cluster.kubectl(&["patch", kind, name, "--type=json", "--patch", &removals]).await.unwrap();
    }
}

/// The API of a cluster-scoped kind.
trait OfStage<K> {
    fn all_of(stage: &Stage) -> Api<K>;
}

impl<K: Kind> OfStage<K> for Api<K> {
    fn all_of(stage: &Stage) -> Self {
        K::api(stage.client.clone(), None)
    }
}

pub(super) const OURS: [&str; 2] = ["/webhooks/0/clientConfig/caBundle", "/webhooks/1/clientConfig/caBundle"];
const OTHERS: [&str; 2] = ["/webhooks/2/clientConfig/caBundle", "/webhooks/3/clientConfig/caBundle"];
const CONVERSION: [&str; 1] = ["/spec/conversion/webhook/clientConfig/caBundle"];
/// Someone who strips it by hand should not notice that anything failed.
const AT_ONCE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn ca_bundle_is_kept_in_what_calls_us_and_in_nothing_else() {
    let stage = Stage::new(targets).await;
    let name = stage.namespace.to_string();
    let crd = definition(&name);
    let replicas = [stage.managed().await, stage.managed().await];
    let bundle = stage.until("the Secret to be complete", |held| held.has_key).await.bundle;

    let manifests = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    let objects = [
        webhooks("ValidatingWebhookConfiguration", &name),
        webhooks("MutatingWebhookConfiguration", &name),
        converted(&name),
    ];
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    std::fs::write(manifests.path(), list.to_string()).unwrap();
    let file = manifests.path().to_str().unwrap();
    stage.cluster.kubectl(&["apply", "-f", file]).await.unwrap();
    stage.until_trusted::<ValidatingWebhookConfiguration>(&name, &OURS, &bundle).await;
    stage.until_trusted::<MutatingWebhookConfiguration>(&name, &OURS, &bundle).await;
    stage.until_trusted::<CustomResourceDefinition>(&crd, &CONVERSION, &bundle).await;

    // The manifests have no caBundle. Applying them again, either way, does not take it away.
    for how in [&["apply", "-f", file][..], &["apply", "--server-side", "--force-conflicts", "-f", file]] {
        let before = stage.writes("validatingwebhookconfigurations");
        stage.cluster.kubectl(how).await.unwrap();
        let after = Api::<ValidatingWebhookConfiguration>::all_of(&stage).get(&name).await.unwrap();
        let after = serde_json::to_value(after).unwrap();
        assert!(OURS.iter().all(|place| after.pointer(place).is_some()), "{how:?}: {after}");
        assert!(OTHERS.iter().all(|place| after.pointer(place).is_none()), "{how:?}: {after}");
        assert_eq!(stage.writes("validatingwebhookconfigurations"), before, "nothing had to be healed");
    }

    stage.strip("validatingwebhookconfiguration", &name, &OURS).await;
    let webhooks = stage.until_trusted::<ValidatingWebhookConfiguration>(&name, &OURS, &bundle).await;
    stage.strip("crd", &crd, &CONVERSION).await;
    let conversion = stage.until_trusted::<CustomResourceDefinition>(&crd, &CONVERSION, &bundle).await;
    println!("caBundle was healed after {webhooks:.2?} (webhooks) and {conversion:.2?} (conversion)");
    assert!(webhooks < AT_ONCE && conversion < AT_ONCE, "{webhooks:?} {conversion:?}");

    for replica in replicas {
        replica.end().await;
    }
    let requests = stage.requests();
    assert!(requests.iter().all(|(_, _, code)| *code != 403), "{requests:?}");
    assert!(
        stage
            .cluster
            .kubectl(&["delete", "validatingwebhookconfiguration,mutatingwebhookconfiguration", &name])
            .await
            .is_ok()
    );
    assert!(stage.cluster.kubectl(&["delete", "crd", &crd]).await.is_ok());
}
