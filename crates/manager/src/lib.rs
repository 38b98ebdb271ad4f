//! The manager: one process that runs the controllers its flags name.

mod flags;
mod select;

use std::{sync::Arc, time::Instant};

use anyhow::Result;
pub use flags::{Flags, command, parse};
use operator_core::{Environment, Registration, register};
use operator_runtime::{connect::connect, crds, logs, probes, signals, supervisor};
pub use select::select;
use tracing::info;

/// Every controller there is. To add one: its crate, a line here, and its dependency.
pub const CONTROLLERS: &[Registration] = &[
    register::<memcached::MemcachedController>(),
    register::<namespaceplus::NamespacePlusController>(),
    register::<podset::PodSetController>(),
    register::<tenant::TenantController>(),
];

/// Runs the manager until it is asked to stop.
///
/// # Errors
/// What makes running impossible: no cluster configuration, an address that is taken, a controller that keeps
/// ending. An API server that cannot be reached is none of them; the manager waits for it.
pub async fn run(flags: Flags) -> Result<()> {
    logs::start(flags.log_format, &flags.log_level)?;
    let started = Instant::now();
    let mut environment = Environment::new(connect().await?);
    environment.settings = Arc::new(flags.settings);
    environment.concurrency = flags.concurrency;
    environment.reconcile_timeout = flags.reconcile_timeout;
    environment.namespace = flags.namespace;
    environment.instance = flags.instance;
    let stop = environment.stop.clone();
    signals::stop_on_signal(stop.clone())?;
    if let Some(address) = flags.health_probe_bind_address {
        probes::serve(address, environment.informers.clone(), stop.clone()).await?;
    }
    let names: Vec<_> = flags.controllers.iter().map(|controller| controller.name).collect();
    info!(version = env!("CARGO_PKG_VERSION"), controllers = names.join(","), "the manager starts");
    if flags.install_crds {
        let definitions: Vec<_> =
            flags.controllers.iter().flat_map(|controller| (controller.crds)()).collect();
        let client = environment.clients.named("install-crds");
        let installed = stop.run_until_cancelled(crds::install_when_reachable(&client, &definitions));
        installed.await.transpose()?;
    }
    supervisor::run(&flags.controllers, &environment).await?;
    info!(ran_for = ?started.elapsed(), "the manager has stopped");
    Ok(())
}
