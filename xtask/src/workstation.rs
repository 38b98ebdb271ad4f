//! The webhooks of a manager that runs on a workstation: the API server is told of them by URL, for as long as it runs.
//!
//! Configurations of a manager that is deployed in the cluster, which are by Service, are never touched.

use std::{
    fmt::Debug,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        core::v1::Namespace,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::{ClusterResourceScope, ObjectMeta},
};
use manager::{CONTROLLERS, Task};
use operator_core::{
    Registration,
    admission::configuration::{self, Reach, mutating, name, validating},
    error::{is_already_exists, is_not_found},
};
use operator_runtime::{connect::connect, crds};
use serde::{Serialize, de::DeserializeOwned};

use crate::{rbac::NAMESPACE, stage::free_address};

/// Who the API server remembers as the writer.
pub(crate) const FIELD_MANAGER: &str = "ensemble";
/// How often to look whether the manager listens.
const POLL: Duration = Duration::from_millis(100);

/// A webhook configuration of either sort.
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

/// Where the webhooks are served unless the flags say something else, if nobody has it yet.
const ADDRESS: &str = "127.0.0.1:9443";
const BIND_FLAG: &str = "--webhook-bind-address";
const HOST_FLAG: &str = "--webhook-host";

/// A manager that runs on this machine, and whether the API server is to ask it.
pub(crate) struct Workstation {
    flags: Vec<String>,
    webhooks: Option<Webhooks>,
}

impl Workstation {
    /// A manager with these arguments. Where its webhooks would not work they are left out, and it is said why.
    pub(crate) async fn new(args: &[String]) -> Self {
        match Self::with_webhooks(args).await {
            Ok(this) => this,
            Err(error) => {
                eprintln!("the webhooks are left out: {error:#}");
                Self { flags: vec![format!("{BIND_FLAG}=0")], webhooks: None }
            }
        }
    }

    async fn with_webhooks(args: &[String]) -> Result<Self> {
        let mut flags = Vec::new();
        if !is_given(args, BIND_FLAG) && std::env::var_os("ENSEMBLE_WEBHOOK_BIND_ADDRESS").is_none() {
            flags.push(format!("{BIND_FLAG}={}", usual_or_free_address()?));
        }
        let line = ["ensemble-manager".to_owned()].into_iter().chain(flags.iter().chain(args).cloned());
        let parsed = manager::parse_from(line.map(Into::into)).unwrap_or_else(|error| error.exit());
        if parsed.task != Task::Run {
            return Ok(Self { flags, webhooks: None });
        }
        let Some(address) = parsed.webhook_bind_address else { return Ok(Self { flags, webhooks: None }) };
        ensure!(address.port() != 0, "give {BIND_FLAG} a port, so that the API server can be told of it");
        let host = parsed.webhook_hosts.first().map_or_else(
            || if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() },
            ToString::to_string,
        );
        if parsed.webhook_hosts.is_empty() {
            flags.push(format!("{HOST_FLAG}={host}"));
        }
        let webhooks = Webhooks::new(connect().await?, &parsed.controllers, address, &host);
        ensure!(
            !webhooks.are_deployed().await?,
            "the API server asks a manager that is deployed in the cluster, and goes on doing so"
        );
        webhooks.make_namespace().await?;
        Ok(Self { flags, webhooks: Some(webhooks) })
    }

    /// What the manager's arguments begin with.
    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Tells the API server, once the manager listens.
    pub(crate) async fn register(&self) -> Result<()> {
        match &self.webhooks {
            Some(webhooks) => webhooks.register().await,
            None => Ok(()),
        }
    }

    /// Takes back what the API server was told.
    pub(crate) async fn withdraw(&self) -> Result<()> {
        match &self.webhooks {
            Some(webhooks) => webhooks.withdraw().await,
            None => Ok(()),
        }
    }
}

/// The usual address, or a port that is free if somebody has that: another manager on this machine.
fn usual_or_free_address() -> Result<SocketAddr> {
    TcpListener::bind(ADDRESS).and_then(|listener| listener.local_addr()).or_else(|_| free_address())
}

fn is_given(args: &[String], flag: &str) -> bool {
    args.iter().any(|arg| arg == flag || arg.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
}

/// What the API server is told while a manager runs on this machine.
pub(crate) struct Webhooks {
    client: Client,
    controllers: Vec<Registration>,
    address: SocketAddr,
    reach: Reach,
}

impl Webhooks {
    /// The webhooks of these controllers, served at `address` and reached as `host`.
    pub(crate) fn new(client: Client, controllers: &[Registration], address: SocketAddr, host: &str) -> Self {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let base = format!("https://{host}:{}", address.port());
        let reach = Reach::Url { base, namespace: NAMESPACE.to_owned() };
        Self { client, controllers: controllers.to_vec(), address, reach }
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
        for controller in &self.controllers {
            if let Some(configuration) = validating(controller, &self.reach) {
                self.apply(&configuration).await?;
            }
            if let Some(configuration) = mutating(controller, &self.reach) {
                self.apply(&configuration).await?;
            }
        }
        self.convert(&self.reach).await
    }

    async fn apply<K: Configuration>(&self, configuration: &K) -> Result<()> {
        let (api, name) = (Api::<K>::all(self.client.clone()), configuration.name_any());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api.patch(&name, &params, &Patch::Apply(configuration)).await;
        applied.map(drop).with_context(|| format!("cannot apply the {} {name}", K::kind(&())))
    }

    /// Has the API server convert versions by whoever is reached so, where there is something to convert.
    async fn convert(&self, reach: &Reach) -> Result<()> {
        let converting = self.controllers.iter().filter(|controller| !(controller.conversions)().is_empty());
        let definitions: Vec<CustomResourceDefinition> =
            converting.flat_map(|controller| configuration::definitions(controller, reach)).collect();
        crds::install(&self.client, &definitions).await
    }

    /// Takes back what the API server was told.
    pub(crate) async fn withdraw(&self) -> Result<()> {
        remove_leftovers(&self.client).await?;
        self.convert(&Reach::Service { namespace: NAMESPACE.to_owned() }).await
    }
}

async fn is_by_service<K: Configuration>(api: &Api<K>, name: &str) -> Result<bool> {
    let there =
        api.get_opt(name).await.with_context(|| format!("cannot read the {} {name}", K::kind(&())))?;
    Ok(there.is_some_and(|there| there.client_configs().iter().any(|config| config.service.is_some())))
}

/// Removes what tells the API server of a manager on a workstation, this one or one that was killed.
pub(crate) async fn remove_leftovers(client: &Client) -> Result<()> {
    for controller in CONTROLLERS {
        let name = name(controller.name);
        remove_leftover(&Api::<ValidatingWebhookConfiguration>::all(client.clone()), &name).await?;
        remove_leftover(&Api::<MutatingWebhookConfiguration>::all(client.clone()), &name).await?;
    }
    Ok(())
}

async fn remove_leftover<K: Configuration>(api: &Api<K>, name: &str) -> Result<()> {
    let failed = || format!("cannot remove the {} {name}", K::kind(&()));
    let Some(there) = api.get_opt(name).await.with_context(failed)? else { return Ok(()) };
    if there.client_configs().iter().any(|config| config.url.is_none()) {
        return Ok(());
    }
    let this = Preconditions { uid: there.uid(), resource_version: None };
    match api.delete(name, &DeleteParams::default().preconditions(this)).await {
        Err(error) if !is_not_found(&error) => Err(error).with_context(failed),
        _ => Ok(()),
    }
}
