//! The manager: one process that runs the controllers selected by its flags.

mod certificates;
pub mod check;
mod cleanup;
mod flags;
mod metrics;
mod namespaces;
mod select;

use std::{sync::Arc, time::Instant};

use anyhow::Result;
pub use certificates::ca_bundle_targets;
pub use flags::{Flags, LeaderElection, Task, command, parse, parse_args_and_env, parse_from};
use operator_core::{
    Environment, Registration,
    client::Clients,
    manifests::webhooks::{self, ClientConfig},
    register,
};
use operator_runtime::{
    connect::{configuration, connect_apart, connect_to, connect_to_endpoints},
    crds,
    election::Election,
    https::{Identity, Server},
    logs::Level,
    metrics::Meter,
    probes::{self, Readiness, ReadinessCheck},
    signals, supervisor,
    telemetry::{self, Collector},
    webhook::{self, Webhooks},
};
pub use select::select;
use tracing::info;

/// Default namespace of the manager.
pub const NAMESPACE: &str = "ensemble-system";
/// ServiceAccount of a deployed manager.
pub const ACCOUNT: &str = "ensemble-manager";

/// Minor version of the oldest supported Kubernetes. It is the first that deletes the Pods of a
/// namespace before the rest, on which the cleanup of the manager relies.
pub const OLDEST_KUBERNETES: u32 = 33;

/// All controllers. To add one, add its crate to the dependencies and a line here.
pub const CONTROLLERS: &[Registration] = &[
    register::<memcached::MemcachedController>(),
    register::<namespaceplus::NamespacePlusController>(),
    register::<podset::PodSetController>(),
    register::<postgres::PostgresClusterController>(),
    register::<replication::GlobalTenantResourceController>(),
    register::<replication::TenantResourceController>(),
    register::<tenant::ConfigurationController>(),
    register::<tenant::TenantController>(),
];

/// Runs the task of the flags, usually the controllers until a signal stops them.
///
/// # Errors
/// Returns an error if the kubeconfig is missing, an address is in use, a controller keeps crashing,
/// a check fails, or cleanup is incomplete. An unreachable API server is retried.
pub async fn run(flags: Flags) -> Result<()> {
    let telemetry = telemetry::start(flags.log_format, &flags.log_level, collector(&flags).as_ref())?;
    let result = match flags.task {
        Task::Run => run_controllers(flags, telemetry.level.clone()).await,
        Task::Check { wait } => check::run(&flags, wait).await,
        Task::Cleanup { wait } => cleanup::run(&flags, wait).await,
    };
    telemetry.end().await;
    result
}

/// Returns the collector of traces. `None` without `--otlp-endpoint`.
fn collector(flags: &Flags) -> Option<Collector> {
    let (endpoint, instance) = (flags.otlp_endpoint.clone()?, flags.instance.clone());
    Some(Collector { endpoint, version: env!("CARGO_PKG_VERSION"), instance })
}

async fn run_controllers(flags: Flags, level: Level) -> Result<()> {
    let started = Instant::now();
    // Comes first, because a signal before this call kills the process.
    let stop = signals::stop_on_signal()?;
    let meter = Arc::new(Meter::new(env!("CARGO_PKG_VERSION"), names(&flags.controllers)));
    let config = configuration().await?;
    let client = connect_to(config.clone(), meter.clone())?;
    let mut environment = Environment::with_scope(client, meter.clone(), flags.scope.clone());
    environment.connect = Some(connect_to_endpoints(config, meter.clone()));
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
    let needs_certificate =
        webhooks.is_some() || (flags.metrics_bind_address.is_some() && flags.metrics_secure);
    let certificates =
        needs_certificate.then(|| certificates::start(&flags, &environment, &identity, webhooks.is_some()));
    if let Some(address) = flags.health_probe_bind_address {
        let checks = certificates.iter().map(|_| certificate(&identity)).collect();
        let readiness = Readiness { informers: environment.informers.clone(), checks, stop: stop.clone() };
        probes::serve(address, readiness).await?;
    }
    if flags.install_crds {
        stop.run_until_cancelled(install_crds(&flags, &environment)).await.transpose()?;
    }
    if webhooks.is_some() {
        // Comes before controllers write, because the reviews of their writes need the user name.
        stop.run_until_cancelled(environment.user.prefetch()).await;
    }
    let election = match &flags.leader_election {
        Some(flags) => Some(Arc::new(election(flags, &environment).await?)),
        None => None,
    };
    supervisor::run(&flags.controllers, &environment, election).await?;
    cleanup::run_if_namespace_deleted(&flags, &environment).await;
    if let Some(server) = webhooks {
        server.task.await?;
    }
    if let Some(certificates) = certificates {
        certificates.await??;
    }
    info!(ran_for = ?started.elapsed(), "the manager has stopped");
    Ok(())
}

/// Installs the CustomResourceDefinitions of the enabled controllers.
async fn install_crds(flags: &Flags, environment: &Environment) -> Result<()> {
    let client_config = ClientConfig::Service { namespace: flags.namespace.clone() };
    let definitions =
        flags.controllers.iter().map(|controller| webhooks::definitions(controller, &client_config));
    let definitions: Vec<_> = definitions.flatten().collect();
    crds::install_when_reachable(&environment.clients.named("install-crds"), &definitions).await
}

/// Serves the webhooks of the enabled controllers.
///
/// Returns `None` if `--webhook-bind-address` is 0 or no controller has webhooks.
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
    info!(address = %server.address, client_certificates, "serving webhooks");
    Ok(Some(server))
}

/// Returns the readiness check of the certificate. Without one, the API server cannot call webhooks.
fn certificate(identity: &Identity) -> ReadinessCheck {
    let identity = identity.clone();
    ReadinessCheck { description: "a certificate", is_ready: Arc::new(move || identity.is_present()) }
}

fn names(controllers: &[Registration]) -> impl Iterator<Item = &'static str> + use<'_> {
    controllers.iter().map(|controller| controller.name)
}

/// Returns the leader election. It has its own connections, so that reconciles do not delay renewals.
async fn election(flags: &LeaderElection, environment: &Environment) -> Result<Election> {
    let metrics = environment.metrics.clone();
    let client = Clients::with_metrics(connect_apart().await?, metrics.clone()).named("election");
    Ok(Election::new(client, &flags.namespace, &environment.instance, flags.timing, metrics))
}
