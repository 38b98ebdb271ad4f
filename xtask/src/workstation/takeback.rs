//! Taking back what the API server was told of managers on workstations.

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
    admission::configuration::name,
    error::{is_conflict, is_not_found},
};
use serde::{Serialize, de::DeserializeOwned};

use super::FIELD_MANAGER;
use crate::crds;

/// A webhook configuration of either sort.
pub(super) trait Configuration:
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

/// Removes the webhook configurations of a manager on a workstation, this one or one that was killed.
pub(crate) async fn remove_leftovers(client: &Client) -> Result<()> {
    remove_configurations(client, CONTROLLERS, "https://").await
}

/// Removes the webhook configurations of these controllers that call nothing but what begins with `base`.
pub(super) async fn remove_configurations(
    client: &Client,
    controllers: &[Registration],
    base: &str,
) -> Result<()> {
    for controller in controllers {
        let name = name(controller.name);
        remove(&Api::<ValidatingWebhookConfiguration>::all(client.clone()), &name, base).await?;
        remove(&Api::<MutatingWebhookConfiguration>::all(client.clone()), &name, base).await?;
    }
    Ok(())
}

async fn remove<K: Configuration>(api: &Api<K>, name: &str, base: &str) -> Result<()> {
    let failed = || format!("cannot remove the {} {name}", K::kind(&()));
    let Some(there) = api.get_opt(name).await.with_context(failed)? else { return Ok(()) };
    if !there.client_configs().into_iter().all(|config| calls(config.url.as_deref(), base)) {
        return Ok(());
    }
    // Another manager may tell the API server of itself in this moment.
    let this = Preconditions { uid: there.uid(), resource_version: there.resource_version() };
    match api.delete(name, &DeleteParams::default().preconditions(this)).await {
        Err(error) if !is_not_found(&error) && !is_conflict(&error) => Err(error).with_context(failed),
        _ => Ok(()),
    }
}

/// Has the API server ask the manager that is deployed to convert versions, where it asks what begins with `base`. A
/// definition that is gone stays so.
pub(super) async fn return_conversions(
    client: &Client,
    controllers: &[Registration],
    base: &str,
) -> Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let definitions = controllers.iter().flat_map(|one| crds::of_controller(one, &crds::deployed()));
    for mut wanted in definitions {
        let name = wanted.name_any();
        let failed = || format!("cannot change the conversion of {name}");
        let Some(there) = api.get_opt(&name).await.with_context(failed)? else { continue };
        if !calls(converter(&there), base) {
            continue;
        }
        (wanted.metadata.uid, wanted.metadata.resource_version) = (there.uid(), there.resource_version());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        match api.patch(&name, &params, &Patch::Apply(&wanted)).await {
            Err(error) if !is_not_found(&error) && !is_conflict(&error) => {
                return Err(error).with_context(failed);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The URL by which the API server has versions converted.
fn converter(definition: &CustomResourceDefinition) -> Option<&str> {
    definition.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()?.url.as_deref()
}

fn calls(url: Option<&str>, base: &str) -> bool {
    url.is_some_and(|url| url.starts_with(base))
}
