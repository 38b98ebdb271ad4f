//! The program: servers, caches, and the way to an orderly end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use kube::{Client, Config};
use operator_core::informer::Informers;
use operator_runtime::{
    connect,
    logs::{self},
    probes::{self, Readiness, ReadinessCheck},
    server::{self, Handler, Limits},
    signals,
};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    flags::Flags,
    identity::Identities,
    metrics::ProxyMetrics,
    metrics_server,
    owners::Owners,
    proxy::Proxy,
    serving::Serving,
    upstream::{AsProxy, AsUser, Endpoint, Pool, Token},
    views::{ViewSettings, Views},
};

/// Time for requests in progress after the proxy was asked to stop.
const GRACE_PERIOD: Duration = Duration::from_secs(30);
/// Interval in which idle connections to the API server are closed.
const IDLE_CHECK: Duration = Duration::from_secs(30);
/// Most requests at once of one HTTP/2 connection of a client, as of the API server's own clients.
const MAX_STREAMS: u32 = 250;
/// Most connections to the metrics.
const MAX_SCRAPERS: usize = 64;
/// Most requests at once.
const MAX_REQUESTS: usize = 65_536;

/// Runs the proxy until a signal stops it.
///
/// # Errors
/// Returns an error if there is no usable configuration of the cluster, no certificate, or an address is in
/// use. An API server that cannot be reached is retried.
pub async fn run(flags: Flags) -> Result<()> {
    logs::start(flags.log_format, &flags.log_level)?;
    let stop = signals::stop_on_signal()?;
    let config = connect::configuration().await?;
    let running = start(&flags, config, stop).await?;
    running.ended().await
}

/// A running proxy.
pub struct Running {
    /// Address with the actual port.
    pub address: SocketAddr,
    /// Address of the metrics with the actual port. `None` if they are disabled.
    pub metrics_address: Option<SocketAddr>,
    proxy: Arc<Proxy>,
    server: JoinHandle<()>,
    drain_timeout: Duration,
}

/// Starts the proxy for the cluster of a configuration, until `stop`.
///
/// # Errors
/// See [`run`].
pub async fn start(flags: &Flags, config: Config, stop: CancellationToken) -> Result<Running> {
    let pool = Arc::new(Pool::new(Endpoint::of(&config)?));
    let token = Arc::new(Token::of(&config.auth_info)?);
    let client = Client::try_from(config).context("cannot use the cluster configuration")?;
    let informers = Informers::new(client.clone());
    let owners =
        Owners::new(informers.clone(), &flags.capsule_configuration, flags.namespaces_by_role_binding);
    let versions = owners.clone().read_versions(client.clone());
    let as_user = AsUser::new(pool.clone(), flags.client_certificates.then(|| token.clone()));
    let as_proxy = AsProxy::new(pool.clone(), token);
    let metrics = Arc::new(ProxyMetrics::default());
    let for_metrics = as_user.clone();
    let settings = ViewSettings {
        kinds: flags.views.0.clone(),
        missing_namespaces: flags.not_found_in_missing_namespaces,
    };
    let identities = Identities::new(as_user.clone());
    let views = Views::new(as_proxy, identities, owners, metrics.clone(), settings);
    let proxy = Arc::new(Proxy::new(as_user, views, metrics.clone()));
    let serving = Arc::new(Serving::new(flags)?);
    let (listener, address) = server::bind(flags.bind_address)
        .await
        .context("cannot serve the API; choose a free address with --bind-address")?;
    if let Some(address) = flags.health_probe_bind_address.0 {
        let checks = if flags.client_certificates { vec![client_ca_check(&serving)] } else { Vec::new() };
        probes::serve(address, Readiness { informers, checks, stop: stop.clone() }).await?;
    }
    let mut metrics_address = None;
    if let Some(address) = flags.metrics_bind_address.0 {
        let (listener, address) = server::bind(address).await.context(
            "cannot serve the metrics; choose a free address with --metrics-bind-address, or 0 for none",
        )?;
        let handler = metrics_server::handler(metrics, for_metrics);
        let tls: server::Tls = Some(Arc::new(serving.without_clients()?));
        server::spawn(listener, tls, handler, Limits::short(MAX_SCRAPERS), stop.clone());
        info!(%address, "serving metrics");
        metrics_address = Some(address);
    }
    if flags.client_certificates {
        tokio::spawn(stop.clone().run_until_cancelled_owned(serving.clone().follow_client_ca(client)));
    }
    let tls: server::Tls = Some(Arc::new(move || serving.current()));
    let server = server::spawn(listener, tls, handler(&proxy), limits(flags), stop.clone());
    tokio::spawn(stop.clone().run_until_cancelled_owned(versions));
    tokio::spawn(close_idle_connections(pool, stop));
    info!(version = env!("CARGO_PKG_VERSION"), %address, "the proxy serves");
    Ok(Running { address, metrics_address, proxy, server, drain_timeout: flags.drain_timeout })
}

impl Running {
    /// Waits until the proxy was stopped and all requests have ended. Switched connections, such as shells,
    /// go on for the drain timeout.
    ///
    /// # Errors
    /// Returns an error if the server has panicked.
    pub async fn ended(self) -> Result<()> {
        self.server.await.context("the server of the API has failed")?;
        if timeout(self.drain_timeout, self.proxy.tunnels_ended()).await.is_err() {
            self.proxy.end_tunnels();
            self.proxy.tunnels_ended().await;
        }
        info!("the proxy has stopped");
        Ok(())
    }
}

/// A proxy that accepts client certificates is ready when it knows their authorities.
fn client_ca_check(serving: &Arc<Serving>) -> ReadinessCheck {
    let serving = serving.clone();
    ReadinessCheck {
        description: "the client CA of the API server",
        is_ready: Arc::new(move || serving.has_client_ca()),
    }
}

fn handler(proxy: &Arc<Proxy>) -> Handler {
    let proxy = proxy.clone();
    Arc::new(move |request| Box::pin(proxy.clone().handle(request)))
}

fn limits(flags: &Flags) -> Limits {
    Limits {
        connections: usize::try_from(flags.max_connections).unwrap_or(usize::MAX),
        requests: MAX_REQUESTS,
        streams: MAX_STREAMS,
        header_bytes: flags.max_header_bytes,
        request_timeout: None,
        grace_period: GRACE_PERIOD,
    }
}

async fn close_idle_connections(pool: Arc<Pool>, stop: CancellationToken) {
    let mut interval = tokio::time::interval(IDLE_CHECK);
    while stop.run_until_cancelled(interval.tick()).await.is_some() {
        pool.close_idle();
    }
}
