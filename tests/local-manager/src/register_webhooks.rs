//! Registration of the webhooks of a manager on a workstation.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Namespace,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use manager::{CONTROLLERS, NAMESPACE};
use operator_core::{
    Registration,
    error::is_already_exists,
    manifests::webhooks::{ClientConfig, mutating, name, validating},
};
use operator_runtime::crds::install;

use crate::{
    FIELD_MANAGER, crds,
    restore_webhooks::{Configuration, remove_configurations, restore_conversions},
};

/// Interval of the checks whether the manager listens.
const POLL: Duration = Duration::from_millis(100);

/// Webhooks of a manager on this machine.
pub struct Webhooks {
    client: Client,
    controllers: Vec<Registration>,
    address: SocketAddr,
    base: String,
}

impl Webhooks {
    /// Returns the webhooks of these controllers, served on `address` and reachable as `host`.
    pub fn new(client: Client, controllers: &[Registration], address: SocketAddr, host: &str) -> Self {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let base = format!("https://{host}:{}", address.port());
        Self { client, controllers: controllers.to_vec(), address, base }
    }

    /// Returns whether the webhooks of a deployed manager are registered.
    pub async fn are_deployed(&self) -> Result<bool> {
        for controller in CONTROLLERS {
            let name = name(controller.name);
            if refers_to_service(&Api::<ValidatingWebhookConfiguration>::all(self.client.clone()), &name)
                .await?
                || refers_to_service(&Api::<MutatingWebhookConfiguration>::all(self.client.clone()), &name)
                    .await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Creates the namespace of the manager, which contains its certificates.
    pub async fn create_namespace(&self) -> Result<()> {
        let metadata = ObjectMeta { name: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        match Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &namespace).await {
            Err(error) if !is_already_exists(&error) => {
                Err(error).with_context(|| format!("cannot create the namespace {NAMESPACE}"))
            }
            _ => Ok(()),
        }
    }

    /// Waits until the manager listens, and registers its webhooks. Replaces those of an earlier
    /// manager.
    pub async fn register(&self) -> Result<()> {
        while tokio::net::TcpStream::connect(self.address).await.is_err() {
            tokio::time::sleep(POLL).await;
        }
        let client_config = ClientConfig::Url { base: self.base.clone(), namespace: NAMESPACE.to_owned() };
        for controller in &self.controllers {
            if let Some(configuration) = validating(controller, &client_config) {
                self.apply(&configuration).await?;
            }
            if let Some(configuration) = mutating(controller, &client_config) {
                self.apply(&configuration).await?;
            }
        }
        let converting = self.controllers.iter().filter(|controller| !(controller.conversions)().is_empty());
        let definitions: Vec<_> =
            converting.flat_map(|controller| crds::of_controller(controller, &client_config)).collect();
        install(&self.client, &definitions).await
    }

    async fn apply<K: Configuration>(&self, configuration: &K) -> Result<()> {
        let (api, name) = (Api::<K>::all(self.client.clone()), configuration.name_any());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api.patch(&name, &params, &Patch::Apply(configuration)).await;
        applied.map(drop).with_context(|| format!("cannot apply the {} {name}", K::kind(&())))
    }

    /// Removes the registration, unless another manager has replaced it.
    pub async fn unregister(&self) -> Result<()> {
        let base = format!("{}/", self.base);
        remove_configurations(&self.client, &self.controllers, &base).await?;
        restore_conversions(&self.client, &self.controllers, &base).await
    }
}

/// Returns whether a configuration exists and refers to a Service.
async fn refers_to_service<K: Configuration>(api: &Api<K>, name: &str) -> Result<bool> {
    let existing =
        api.get_opt(name).await.with_context(|| format!("cannot read the {} {name}", K::kind(&())))?;
    Ok(existing
        .is_some_and(|existing| existing.client_configs().iter().any(|config| config.service.is_some())))
}
