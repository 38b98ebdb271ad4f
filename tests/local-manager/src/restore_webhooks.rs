//! Removal of the webhooks of managers on workstations.

use std::fmt::Debug;

use anyhow::{Context, Result};
use k8s_openapi::{
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::ClusterResourceScope,
};
use manager::CONTROLLERS;
use operator_core::{
    Registration,
    error::{is_conflict, is_not_found},
    manifests::webhooks::name,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{FIELD_MANAGER, crds};

/// Validating or mutating webhook configuration.
pub(crate) trait Configuration:
    Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
    fn client_configs(&self) -> Vec<&WebhookClientConfig>;
}

impl Configuration for ValidatingWebhookConfiguration {
    fn client_configs(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

impl Configuration for MutatingWebhookConfiguration {
    fn client_configs(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

/// Deletes the webhook configurations of managers on workstations, including those that were
/// killed.
pub async fn remove_leftovers(client: &Client) -> Result<()> {
    remove_configurations(client, CONTROLLERS, "https://").await
}

/// Deletes the webhook configurations of these controllers whose URLs all start with `base`.
pub(crate) async fn remove_configurations(
    client: &Client,
    controllers: &[Registration],
    base: &str,
) -> Result<()> {
    for controller in controllers {
        let name = name(controller.name);
        remove_configuration(&Api::<ValidatingWebhookConfiguration>::all(client.clone()), &name, base)
            .await?;
        remove_configuration(&Api::<MutatingWebhookConfiguration>::all(client.clone()), &name, base).await?;
    }
    Ok(())
}

async fn remove_configuration<K: Configuration>(api: &Api<K>, name: &str, base: &str) -> Result<()> {
    let failed = || format!("cannot delete the {} {name}", K::kind(&()));
    let Some(existing) = api.get_opt(name).await.with_context(failed)? else { return Ok(()) };
    if !existing.client_configs().into_iter().all(|config| calls(config.url.as_deref(), base)) {
        return Ok(());
    }
    // Another manager may replace the configuration concurrently.
    let this = Preconditions { uid: existing.uid(), resource_version: existing.resource_version() };
    match api.delete(name, &DeleteParams::default().preconditions(this)).await {
        Err(error) if !is_not_found(&error) && !is_conflict(&error) => Err(error).with_context(failed),
        _ => Ok(()),
    }
}

/// Restores the conversion webhooks of the deployed manager in definitions whose URL starts with
/// `base`.
///
/// Definitions that do not exist are not created.
pub(crate) async fn restore_conversions(
    client: &Client,
    controllers: &[Registration],
    base: &str,
) -> Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let definitions = controllers.iter().flat_map(|one| crds::of_controller(one, &crds::deployed()));
    for mut desired in definitions {
        let name = desired.name_any();
        let failed = || format!("cannot restore the conversion webhook of {name}");
        let Some(existing) = api.get_opt(&name).await.with_context(failed)? else { continue };
        if !calls(conversion_url(&existing), base) {
            continue;
        }
        (desired.metadata.uid, desired.metadata.resource_version) =
            (existing.uid(), existing.resource_version());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        match api.patch(&name, &params, &Patch::Apply(&desired)).await {
            Err(error) if !is_not_found(&error) && !is_conflict(&error) => {
                return Err(error).with_context(failed);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the URL of the conversion webhook.
fn conversion_url(definition: &CustomResourceDefinition) -> Option<&str> {
    definition.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()?.url.as_deref()
}

fn calls(url: Option<&str>, base: &str) -> bool {
    url.is_some_and(|url| url.starts_with(base))
}
