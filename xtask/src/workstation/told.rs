//! What the API server is told of a manager on a workstation.

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
use manager::CONTROLLERS;
use operator_core::{
    Registration,
    admission::configuration::{ClientConfig, mutating, name, validating},
    error::is_already_exists,
};
use operator_runtime::crds::install;

use super::{
    FIELD_MANAGER,
    takeback::{Configuration, remove_configurations, return_conversions},
};
use crate::{crds, rbac::NAMESPACE};

/// How often to look whether the manager listens.
const POLL: Duration = Duration::from_millis(100);

/// What the API server is told while a manager runs on this machine.
pub(crate) struct Webhooks {
    client: Client,
    controllers: Vec<Registration>,
    address: SocketAddr,
    base: String,
}

impl Webhooks {
    /// The webhooks of these controllers, served at `address` and reached as `host`.
    pub(crate) fn new(client: Client, controllers: &[Registration], address: SocketAddr, host: &str) -> Self {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let base = format!("https://{host}:{}", address.port());
        Self { client, controllers: controllers.to_vec(), address, base }
    }

    /// Whether the API server asks a manager that is deployed in the cluster.
    pub(crate) async fn are_deployed(&self) -> Result<bool> {
        for controller in CONTROLLERS {
            let name = name(controller.name);
            if is_by_service(&Api::<ValidatingWebhookConfiguration>::all(self.client.clone()), &name).await?
                || is_by_service(&Api::<MutatingWebhookConfiguration>::all(self.client.clone()), &name)
                    .await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the namespace of the manager, where its certificates are kept.
    pub(crate) async fn make_namespace(&self) -> Result<()> {
        let metadata = ObjectMeta { name: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        match Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &namespace).await {
            Err(error) if !is_already_exists(&error) => {
                Err(error).with_context(|| format!("cannot create the namespace {NAMESPACE}"))
            }
            _ => Ok(()),
        }
    }

    /// Waits until the manager listens, and tells the API server. What an earlier manager left is replaced.
    pub(crate) async fn register(&self) -> Result<()> {
        while tokio::net::TcpStream::connect(self.address).await.is_err() {
            tokio::time::sleep(POLL).await;
        }
        let reach = ClientConfig::Url { base: self.base.clone(), namespace: NAMESPACE.to_owned() };
        for controller in &self.controllers {
            if let Some(configuration) = validating(controller, &reach) {
                self.apply(&configuration).await?;
            }
            if let Some(configuration) = mutating(controller, &reach) {
                self.apply(&configuration).await?;
            }
        }
        let converting = self.controllers.iter().filter(|controller| !(controller.conversions)().is_empty());
        let definitions: Vec<_> =
            converting.flat_map(|controller| crds::of_controller(controller, &reach)).collect();
        install(&self.client, &definitions).await
    }

    async fn apply<K: Configuration>(&self, configuration: &K) -> Result<()> {
        let (api, name) = (Api::<K>::all(self.client.clone()), configuration.name_any());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api.patch(&name, &params, &Patch::Apply(configuration)).await;
        applied.map(drop).with_context(|| format!("cannot apply the {} {name}", K::kind(&())))
    }

    /// Takes back what the API server was told, unless another manager has told it of itself since.
    pub(crate) async fn withdraw(&self) -> Result<()> {
        let base = format!("{}/", self.base);
        remove_configurations(&self.client, &self.controllers, &base).await?;
        return_conversions(&self.client, &self.controllers, &base).await
    }
}

async fn is_by_service<K: Configuration>(api: &Api<K>, name: &str) -> Result<bool> {
    let there =
        api.get_opt(name).await.with_context(|| format!("cannot read the {} {name}", K::kind(&())))?;
    Ok(there.is_some_and(|there| there.client_configs().iter().any(|config| config.service.is_some())))
}
