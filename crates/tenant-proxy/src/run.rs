//! The program: servers, caches, and the way to an orderly end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use kube::{Client, Config};
use operator_core::informer::Informers;
use operator_runtime::{
    connect,
    https::{Identity, tls},
    logs::{self},
    probes::{self, Readiness},
    reload::FileReloader,
    server::{self, Handler, Limits},
    signals,
};
use rustls::ServerConfig;
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
    upstream::{AsProxy, AsUser, Endpoint, Pool, Token},
    views::Views,
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
    let token = Token::of(&config.auth_info)?;
    let client = Client::try_from(config).context("cannot use the cluster configuration")?;
    let informers = Informers::new(client.clone());
    let owners = Owners::new(informers.clone(), &flags.capsule_configuration);
    let versions = owners.clone().read_versions(client);
    let as_user = AsUser::new(pool.clone());
    let as_proxy = AsProxy::new(pool.clone(), token);
    let metrics = Arc::new(ProxyMetrics::default());
    let (views, for_metrics) = (flags.views.0.clone(), as_user.clone());
    let identities = Identities::new(as_user.clone());
    let views = Views::new(as_proxy, identities, owners, metrics.clone(), views);
    let proxy = Arc::new(Proxy::new(as_user, views, metrics.clone()));
    let certificate = certificate(flags)?;
    let (listener, address) = server::bind(flags.bind_address)
        .await
        .context("cannot serve the API; choose a free address with --bind-address")?;
    if let Some(address) = flags.health_probe_bind_address.0 {
        probes::serve(address, Readiness { informers, checks: Vec::new(), stop: stop.clone() }).await?;
    }
    let tls: server::Tls = Some(Arc::new(move || certificate.current()));
    let mut metrics_address = None;
    if let Some(address) = flags.metrics_bind_address.0 {
        let (listener, address) = server::bind(address).await.context(
            "cannot serve the metrics; choose a free address with --metrics-bind-address, or 0 for none",
        )?;
        let handler = metrics_server::handler(metrics, for_metrics);
        server::spawn(listener, tls.clone(), handler, Limits::short(MAX_SCRAPERS), stop.clone());
        info!(%address, "serving metrics");
        metrics_address = Some(address);
    }
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

/// Returns the TLS configuration with the serving certificate.
fn certificate(flags: &Flags) -> Result<FileReloader<ServerConfig>> {
    let files = vec![flags.tls_cert_file.clone(), flags.tls_private_key_file.clone()];
    FileReloader::new("the serving certificate", files, |contents| {
        let [chain, key] = contents else { anyhow::bail!("a certificate has two files") };
        let identity = Identity::default();
        identity.set(chain, key)?;
        tls(&identity, None)
    })
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
