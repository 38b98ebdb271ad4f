//! Test environment: a webhook server and its webhook configurations.

use std::time::Duration;

use cluster::{Cluster, TestNamespace, wait::eventually};
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        core::v1::ConfigMap,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams},
    core::ObjectMeta,
};
use operator_core::{
    Environment,
    manifests::webhooks::{ClientConfig, mutating, validating},
};
use operator_runtime::{
    https::{Identity, Server},
    webhook::{Webhooks, serve},
};
use tokio_util::sync::CancellationToken;

use super::handlers::REGISTRATION;

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Webhook server and a namespace of the shared cluster.
pub(super) struct TestEnv {
    pub(super) cluster: &'static Cluster,
    pub(super) namespace: TestNamespace,
    pub(super) client: Client,
    server: Option<Server>,
    pub(super) client_config: ClientConfig,
    pub(super) ca: ByteString,
    stop: CancellationToken,
    /// The informers stop when it is dropped.
    _environment: Environment,
}

impl TestEnv {
    /// Starts a server without webhook configurations.
    pub(super) async fn new() -> Self {
        let cluster = cluster::shared().await.unwrap();
        let namespace = cluster.namespace("webhook").await.unwrap();
        let client = cluster.client().await.unwrap();
        let environment = Environment::new(client.clone());
        let (identity, ca) = identity();
        let stop = environment.stop.clone();
        let webhooks = Webhooks::build(&[REGISTRATION], &environment);
        let address = ([127, 0, 0, 1], 0).into();
        let server = serve(address, webhooks, identity, None, stop.clone()).await.unwrap();
        let base = format!("https://{}", server.address);
        let client_config = ClientConfig::Url { base, namespace: "ensemble-system".to_owned() };
        Self {
            cluster,
            namespace,
            client,
            server: Some(server),
            client_config,
            ca,
            stop,
            _environment: environment,
        }
    }

    /// Starts a server and registers its webhooks.
    pub(super) async fn with_webhooks() -> Self {
        let env = Self::new().await;
        env.configure(None).await;
        env.until_called().await;
        env
    }

    /// Creates the webhook configurations for the namespace of the test.
    pub(super) async fn configure(&self, failure_policy: Option<&str>) {
        let mut guards = validating(&REGISTRATION, &self.client_config).unwrap();
        guards.metadata = self.metadata();
        for webhook in guards.webhooks.iter_mut().flatten() {
            self.adapt(&mut webhook.client_config, webhook.namespace_selector.as_mut());
            webhook.failure_policy =
                failure_policy.map(str::to_owned).or_else(|| webhook.failure_policy.take());
        }
        let mut stampers = mutating(&REGISTRATION, &self.client_config).unwrap();
        stampers.metadata = self.metadata();
        for webhook in stampers.webhooks.iter_mut().flatten() {
            self.adapt(&mut webhook.client_config, webhook.namespace_selector.as_mut());
            webhook.failure_policy =
                failure_policy.map(str::to_owned).or_else(|| webhook.failure_policy.take());
        }
        let create = PostParams::default();
        Api::<ValidatingWebhookConfiguration>::all(self.client.clone())
            .create(&create, &guards)
            .await
            .unwrap();
        Api::<MutatingWebhookConfiguration>::all(self.client.clone())
            .create(&create, &stampers)
            .await
            .unwrap();
    }

    fn metadata(&self) -> ObjectMeta {
        ObjectMeta { name: Some(self.namespace.to_string()), ..ObjectMeta::default() }
    }

    /// Sets `caBundle`, and limits a webhook to the namespace of the test.
    fn adapt(&self, client_config: &mut WebhookClientConfig, selector: Option<&mut LabelSelector>) {
        client_config.ca_bundle = Some(self.ca.clone());
        selector.unwrap().match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
            key: "kubernetes.io/metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![self.namespace.to_string()]),
        });
    }

    /// Waits until the API server uses the configurations.
    pub(super) async fn until_called(&self) {
        eventually("the webhook to be called", TIMEOUT, async || {
            Ok(match self.try_create(&[("deny", "not yet")]).await {
                Err(error) if error.contains("not yet") => Ok(()),
                other => Err(other),
            })
        })
        .await
        .unwrap();
    }

    pub(super) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates a ConfigMap in a dry run. Returns the error of the API server.
    pub(super) async fn try_create(&self, data: &[(&str, &str)]) -> Result<ConfigMap, String> {
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let created = self.config_maps().create(&dry_run, &config_map("tried", data)).await;
        created.map_err(|error| operator_core::error::chain(&error))
    }

    /// Stops the server. The webhook configurations stay.
    pub(super) async fn stop_server(&mut self) {
        self.stop.cancel();
        self.server.take().unwrap().task.await.unwrap();
    }

    /// Deletes the webhook configurations.
    pub(super) async fn delete_webhooks(&self) {
        let (name, delete) = (self.namespace.to_string(), DeleteParams::default());
        Api::<ValidatingWebhookConfiguration>::all(self.client.clone()).delete(&name, &delete).await.unwrap();
        Api::<MutatingWebhookConfiguration>::all(self.client.clone()).delete(&name, &delete).await.unwrap();
    }
}

/// Returns a self-signed certificate and its `caBundle`.
fn identity() -> (Identity, ByteString) {
    let generated = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let identity = Identity::default();
    let (chain, key) = (generated.cert.pem(), generated.signing_key.serialize_pem());
    identity.set(chain.as_bytes(), key.as_bytes()).unwrap();
    (identity, ByteString(chain.into_bytes()))
}

pub(super) fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let mut object = ConfigMap { metadata: ObjectMeta::default(), ..ConfigMap::default() };
    object.metadata.name = Some(name.to_owned());
    object.data = Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
    object
}

pub(super) fn with_label(mut object: ConfigMap, key: &str, value: &str) -> ConfigMap {
    object.labels_mut().insert(key.to_owned(), value.to_owned());
    object
}
