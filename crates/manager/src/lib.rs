//! The manager: one process that runs the controllers its flags name.

mod certificates;
mod flags;
mod metrics;
mod namespaces;
mod release;
mod select;

use std::{sync::Arc, time::Instant};

use anyhow::Result;
pub use certificates::ca_bundle_targets;
pub use flags::{Flags, Sharing, Task, command, parse, parse_deployed, parse_from};
use operator_core::{
    Environment, Registration,
    admission::configuration::{self, ClientConfig},
    client::Clients,
    register,
};
use operator_runtime::{
    connect::{connect_apart, connect_measured},
    crds,
    election::Election,
    https::{Identity, Server},
    logs::Level,
    metrics::Meter,
    probes::{self, Awaited, Readiness},
    signals, supervisor,
    telemetry::{self, Collector},
    webhook::{self, Webhooks},
};
pub use select::select;
use tracing::info;

/// The namespace that the manager runs in, unless it is told otherwise.
pub const NAMESPACE: &str = "ensemble-system";
/// The ServiceAccount that the manager runs as where it is deployed.
pub const ACCOUNT: &str = "ensemble-manager";

/// The first minor version of Kubernetes 1 that has all that is used: ValidatingAdmissionPolicy is `v1` since then. The
/// tests run on 1.36.
pub const OLDEST_KUBERNETES: u32 = 30;

/// Every controller there is. To add one: its crate, a line here, and its dependency.
pub const CONTROLLERS: &[Registration] = &[
    register::<memcached::MemcachedController>(),
    register::<namespaceplus::NamespacePlusController>(),
    register::<podset::PodSetController>(),
    register::<tenant::ConfigurationController>(),
    register::<tenant::TenantController>(),
];

/// Does what the flags ask: as a rule, runs the manager until it is asked to stop.
///
/// # Errors
/// What makes running impossible: no cluster configuration, an address that is taken, a controller that keeps
/// ending. An API server that cannot be reached is none of them; the manager waits for it. And what a release could not
/// let go of.
pub async fn run(flags: Flags) -> Result<()> {
    let telemetry = telemetry::start(flags.log_format, &flags.log_level, collector(&flags).as_ref())?;
    let ended = match flags.task {
        Task::Run => run_controllers(flags, telemetry.level.clone()).await,
        Task::Release { patience } => release::run(&flags, patience).await,
    };
    telemetry.end().await;
    ended
}

/// Where traces go, if anywhere.
fn collector(flags: &Flags) -> Option<Collector> {
    let (endpoint, instance) = (flags.otlp_endpoint.clone()?, flags.instance.clone());
    Some(Collector { endpoint, version: env!("CARGO_PKG_VERSION"), instance })
}

async fn run_controllers(flags: Flags, level: Level) -> Result<()> {
    let started = Instant::now();
    // Before all else: until then a signal just ends the process.
    let stop = signals::stop_on_signal()?;
    let meter = Arc::new(Meter::new(env!("CARGO_PKG_VERSION"), names(&flags.controllers)));
    let client = connect_measured(meter.clone()).await?;
    let mut environment = Environment::within(client, meter.clone(), flags.scope.clone());
    environment.settings = Arc::new(flags.settings.clone());
    environment.concurrency = flags.concurrency;
    environment.reconcile_timeout = flags.reconcile_timeout;
    environment.namespace.clone_from(&flags.namespace);
    environment.instance.clone_from(&flags.instance);
    environment.stop = stop.clone();
    let controllers: Vec<_> = names(&flags.controllers).collect();
    info!(version = env!("CARGO_PKG_VERSION"), controllers = controllers.join(","), "the manager starts");
    let identity = Identity::default();
    let webhooks = serve_webhooks(&flags, &environment, &identity).await?;
    metrics::serve(&flags, &environment, &identity, meter, level).await?;
    let shows_certificate =
        webhooks.is_some() || (flags.metrics_bind_address.is_some() && flags.metrics_secure);
    let certificates =
        shows_certificate.then(|| certificates::start(&flags, &environment, &identity, webhooks.is_some()));
    if let Some(address) = flags.health_probe_bind_address {
        let awaited = certificates.iter().map(|_| certificate(&identity)).collect();
        let readiness = Readiness { informers: environment.informers.clone(), awaited, stop: stop.clone() };
        probes::serve(address, readiness).await?;
    }
    if flags.install_crds {
        stop.run_until_cancelled(install_crds(&flags, &environment)).await.transpose()?;
    }
    if webhooks.is_some() {
        // Before controllers write: reviews of what they write need it.
        stop.run_until_cancelled(environment.user.learn()).await;
    }
    let election = match &flags.sharing {
        Some(sharing) => Some(Arc::new(election(sharing, &environment).await?)),
        None => None,
    };
    supervisor::run(&flags.controllers, &environment, election).await?;
    release::if_removed(&flags, &environment).await;
    if let Some(server) = webhooks {
        server.ended.await?;
    }
    if let Some(certificates) = certificates {
        certificates.await??;
    }
    info!(ran_for = ?started.elapsed(), "the manager has stopped");
    Ok(())
}

/// Registers the definitions of the enabled controllers.
async fn install_crds(flags: &Flags, environment: &Environment) -> Result<()> {
    let reach = ClientConfig::Service { namespace: flags.namespace.clone() };
    let definitions =
        flags.controllers.iter().map(|controller| configuration::definitions(controller, &reach));
    let definitions: Vec<_> = definitions.flatten().collect();
    crds::install_when_reachable(&environment.clients.named("install-crds"), &definitions).await
}

/// Serves the webhooks of the enabled controllers, unless that is switched off or there are none.
async fn serve_webhooks(
    flags: &Flags,
    environment: &Environment,
    identity: &Identity,
) -> Result<Option<Server>> {
    let Some(address) = flags.webhook_bind_address else { return Ok(None) };
    let webhooks = Webhooks::build(&flags.controllers, environment);
    if webhooks.is_empty() {
        return Ok(None);
    }
    let (clients, stop) = (flags.webhook_client_ca.clone(), environment.stop.clone());
    let server = webhook::serve(address, webhooks, identity.clone(), clients, stop).await?;
    let client_certificates = flags.webhook_client_ca.is_some();
    info!(address = %server.address, client_certificates, "the webhooks are served");
    Ok(Some(server))
}

/// Until there is a certificate, the API server cannot ask us.
fn certificate(identity: &Identity) -> Awaited {
    let identity = identity.clone();
    Awaited { what: "a certificate", is_there: Arc::new(move || identity.is_present()) }
}

fn names(controllers: &[Registration]) -> impl Iterator<Item = &'static str> + use<'_> {
    controllers.iter().map(|controller| controller.name)
}

/// Leader election has connections of its own: no crowd of reconciles may hold up a renewal.
async fn election(sharing: &Sharing, environment: &Environment) -> Result<Election> {
    let metrics = environment.metrics.clone();
    let client = Clients::measured(connect_apart().await?, metrics.clone()).named("election");
    Ok(Election::new(client, &sharing.namespace, &environment.instance, sharing.timing, metrics))
}
