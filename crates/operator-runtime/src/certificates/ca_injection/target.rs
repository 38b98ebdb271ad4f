//! Kinds whose objects contain client configurations.

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Resource, core::ObjectMeta};
use operator_core::kind::Kind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client_config::ClientConfig;

/// Type of the patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// Merges list entries by name.
    Strategic,
    /// Replaces lists, for objects that have none on the path.
    Merge,
}

/// A kind whose objects contain client configurations.
pub(crate) trait Target: Kind {
    const PATCH: PatchType;

    fn client_configs(&self) -> Vec<ClientConfig>;

    /// Returns the patch that sets `caBundle` of `client_configs`.
    fn patch(client_configs: &[ClientConfig], bundle: &ByteString) -> Value;
}

impl Target for ValidatingWebhookConfiguration {
    const PATCH: PatchType = PatchType::Strategic;

    fn client_configs(&self) -> Vec<ClientConfig> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| ClientConfig::of(&webhook.name, &webhook.client_config)).collect()
    }

    fn patch(client_configs: &[ClientConfig], bundle: &ByteString) -> Value {
        webhooks(client_configs, bundle)
    }
}

impl Target for MutatingWebhookConfiguration {
    const PATCH: PatchType = PatchType::Strategic;

    fn client_configs(&self) -> Vec<ClientConfig> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| ClientConfig::of(&webhook.name, &webhook.client_config)).collect()
    }

    fn patch(client_configs: &[ClientConfig], bundle: &ByteString) -> Value {
        webhooks(client_configs, bundle)
    }
}

fn webhooks(client_configs: &[ClientConfig], bundle: &ByteString) -> Value {
    let webhook = |client_config: &ClientConfig| json!({ "name": client_config.webhook, "clientConfig": { "caBundle": bundle } });
    json!({ "webhooks": client_configs.iter().map(webhook).collect::<Vec<_>>() })
}

/// The conversion of a CustomResourceDefinition. Its schemas, which are large, are not read.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = "CustomResourceDefinition")]
pub(crate) struct ConversionDefinition {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ConversionDefinitionSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ConversionDefinitionSpec {
    #[serde(default)]
    conversion: Option<Conversion>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Conversion {
    #[serde(default)]
    webhook: Option<ConversionWebhook>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversionWebhook {
    #[serde(default)]
    client_config: Option<ClientConfig>,
}

impl Target for ConversionDefinition {
    const PATCH: PatchType = PatchType::Merge;

    fn client_configs(&self) -> Vec<ClientConfig> {
        let webhook = self.spec.conversion.as_ref().and_then(|conversion| conversion.webhook.as_ref());
        webhook.and_then(|webhook| webhook.client_config.clone()).into_iter().collect()
    }

    fn patch(_: &[ClientConfig], bundle: &ByteString) -> Value {
        json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": bundle } } } } })
    }
}
