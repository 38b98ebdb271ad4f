//! The kinds whose objects tell the API server whom to call.

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Resource, core::ObjectMeta};
use operator_core::kind::Kind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::place::Place;

/// How a part of an object is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// Lists are merged by the names of their entries.
    Strategic,
    /// There is no list on the way.
    Merge,
}

/// A kind whose objects hold client configurations.
pub(crate) trait Holder: Kind {
    const PATCH: PatchType;

    fn places(&self) -> Vec<Place>;

    /// The change that brings `bundle` into these places.
    fn change(places: &[Place], bundle: &ByteString) -> Value;
}

impl Holder for ValidatingWebhookConfiguration {
    const PATCH: PatchType = PatchType::Strategic;

    fn places(&self) -> Vec<Place> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| Place::of(&webhook.name, &webhook.client_config)).collect()
    }

    fn change(places: &[Place], bundle: &ByteString) -> Value {
        webhooks(places, bundle)
    }
}

impl Holder for MutatingWebhookConfiguration {
    const PATCH: PatchType = PatchType::Strategic;

    fn places(&self) -> Vec<Place> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| Place::of(&webhook.name, &webhook.client_config)).collect()
    }

    fn change(places: &[Place], bundle: &ByteString) -> Value {
        webhooks(places, bundle)
    }
}

fn webhooks(places: &[Place], bundle: &ByteString) -> Value {
    let webhook = |place: &Place| json!({ "name": place.webhook, "clientConfig": { "caBundle": bundle } });
    json!({ "webhooks": places.iter().map(webhook).collect::<Vec<_>>() })
}

/// What is read of a custom resource definition: how its versions are converted. Its schemas are large.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = "CustomResourceDefinition")]
pub(crate) struct Definition {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: DefinitionSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct DefinitionSpec {
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
    client_config: Option<Place>,
}

impl Holder for Definition {
    const PATCH: PatchType = PatchType::Merge;

    fn places(&self) -> Vec<Place> {
        let webhook = self.spec.conversion.as_ref().and_then(|conversion| conversion.webhook.as_ref());
        webhook.and_then(|webhook| webhook.client_config.clone()).into_iter().collect()
    }

    fn change(_: &[Place], bundle: &ByteString) -> Value {
        json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": bundle } } } } })
    }
}
