//! Tests of `caBundle` in webhook configurations and CustomResourceDefinitions.

use std::time::{Duration, Instant};

use cluster::wait::eventually;
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use operator_core::kind::Kind;
use operator_runtime::certificates::CaBundleTarget;
use serde::Serialize;
use serde_json::{Value, json};

use super::support::{TIMEOUT, TestEnv};

/// Returns a target of each type, named after the namespace.
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

/// Returns a configuration with four webhooks: two of this manager, by Service and by URL, and two
/// of others. Their selectors match no namespace.
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
            "namespaceSelector": { "matchLabels": { "matches": "none" } },
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

fn converted_crd(namespace: &str) -> Value {
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

impl TestEnv {
    /// Applies a manifest as an administrator.
    pub(super) async fn apply<K: Kind + Serialize>(&self, name: &str, object: &Value) {
        let params = PatchParams::apply("kubectl").force();
        let api = Api::<K>::all_of(self);
        api.patch(name, &params, &Patch::Apply(object)).await.unwrap();
    }

    /// Waits until these fields contain the bundle. Returns the time that this took.
    pub(super) async fn until_injected<K: Kind + Serialize>(
        &self,
        name: &str,
        paths: &[&str],
        bundle: &[u8],
    ) -> Duration {
        let expected = json!(k8s_openapi::ByteString(bundle.to_vec()));
        let started = Instant::now();
        eventually("caBundle to be the bundle", TIMEOUT, async || {
            let object = serde_json::to_value(Api::<K>::all_of(self).get(name).await?)?;
            let values: Vec<_> = paths.iter().map(|path| object.pointer(path).cloned()).collect();
            Ok(if values.iter().all(|value| value.as_ref() == Some(&expected)) {
                Ok(())
            } else {
                Err(values)
            })
        })
        .await
        .unwrap();
        started.elapsed()
    }

    /// Removes fields with kubectl.
    async fn remove_fields(&self, kind: &str, name: &str, places: &[&str]) {
        let removals: Vec<_> = places.iter().map(|place| json!({ "op": "remove", "path": place })).collect();
        let removals = json!(removals).to_string();
        self.cluster.kubectl(&["patch", kind, name, "--type=json", "--patch", &removals]).await.unwrap();
    }
}

/// API of a cluster-scoped kind.
trait ApiOf<K> {
    fn all_of(env: &TestEnv) -> Api<K>;
}

impl<K: Kind> ApiOf<K> for Api<K> {
    fn all_of(env: &TestEnv) -> Self {
        K::api(env.client.clone(), None)
    }
}

pub(super) const OURS: [&str; 2] = ["/webhooks/0/clientConfig/caBundle", "/webhooks/1/clientConfig/caBundle"];
const OTHERS: [&str; 2] = ["/webhooks/2/clientConfig/caBundle", "/webhooks/3/clientConfig/caBundle"];
const CONVERSION: [&str; 1] = ["/spec/conversion/webhook/clientConfig/caBundle"];
/// Maximum time to restore a removed `caBundle`.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn maintains_ca_bundle_only_in_own_client_configs() {
    let env = TestEnv::new(targets).await;
    let name = env.namespace.to_string();
    let crd = definition(&name);
    let replicas = [env.managed_replica().await, env.managed_replica().await];
    let bundle = env.until("the Secret to be complete", |contents| contents.has_key).await.bundle;

    let manifests = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    let objects = [
        webhooks("ValidatingWebhookConfiguration", &name),
        webhooks("MutatingWebhookConfiguration", &name),
        converted_crd(&name),
    ];
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    std::fs::write(manifests.path(), list.to_string()).unwrap();
    let file = manifests.path().to_str().unwrap();
    env.cluster.kubectl(&["apply", "-f", file]).await.unwrap();
    env.until_injected::<ValidatingWebhookConfiguration>(&name, &OURS, &bundle).await;
    env.until_injected::<MutatingWebhookConfiguration>(&name, &OURS, &bundle).await;
    env.until_injected::<CustomResourceDefinition>(&crd, &CONVERSION, &bundle).await;

    // The manifests have no caBundle. Applying them again does not remove it.
    for command in [&["apply", "-f", file][..], &["apply", "--server-side", "--force-conflicts", "-f", file]]
    {
        let before = Timestamp::now();
        env.cluster.kubectl(command).await.unwrap();
        let after = Api::<ValidatingWebhookConfiguration>::all_of(&env).get(&name).await.unwrap();
        let after = serde_json::to_value(after).unwrap();
        assert!(OURS.iter().all(|place| after.pointer(place).is_some()), "{command:?}: {after}");
        assert!(OTHERS.iter().all(|place| after.pointer(place).is_none()), "{command:?}: {after}");
        assert_eq!(
            env.writes_since(before, "validatingwebhookconfigurations"),
            0,
            "caBundle must not be written again"
        );
    }

    env.remove_fields("validatingwebhookconfiguration", &name, &OURS).await;
    let webhooks = env.until_injected::<ValidatingWebhookConfiguration>(&name, &OURS, &bundle).await;
    env.remove_fields("crd", &crd, &CONVERSION).await;
    let conversion = env.until_injected::<CustomResourceDefinition>(&crd, &CONVERSION, &bundle).await;
    println!("caBundle was restored after {webhooks:.2?} (webhooks) and {conversion:.2?} (conversion)");
    assert!(webhooks < RESTORE_TIMEOUT && conversion < RESTORE_TIMEOUT, "{webhooks:?} {conversion:?}");

    for replica in replicas {
        replica.stop().await;
    }
    let requests = env.requests();
    assert!(requests.iter().all(|(_, _, code)| *code != 403), "{requests:?}");
    assert!(
        env.cluster
            .kubectl(&["delete", "validatingwebhookconfiguration,mutatingwebhookconfiguration", &name])
            .await
            .is_ok()
    );
    assert!(env.cluster.kubectl(&["delete", "crd", &crd]).await.is_ok());
}
