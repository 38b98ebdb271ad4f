//! The metrics server.

use std::sync::Arc;

use anyhow::Result;
use operator_core::Environment;
use operator_runtime::{
    https::{Identity, Server},
    logs::{self, Level},
    metrics::{self, Access, Meter},
};
use tracing::info;

use crate::Flags;

/// Maximum number of concurrent requests that authorize scrapes.
const MAX_IN_FLIGHT_REVIEWS: usize = 4;

/// Serves the metrics and the log level, unless `--metrics-bind-address` is 0.
pub(crate) async fn serve(
    flags: &Flags,
    environment: &Environment,
    identity: &Identity,
    meter: Arc<Meter>,
    level: Level,
) -> Result<Option<Server>> {
    let Some(address) = flags.metrics_bind_address else { return Ok(None) };
    // Scrapes have their own request limit, so that they neither wait for controllers nor delay them.
    let client = environment.clients.with_own_limit(MAX_IN_FLIGHT_REVIEWS).named("metrics-auth");
    let identity = identity.clone();
    let access = if flags.metrics_secure { Access::Secure { identity, client } } else { Access::Insecure };
    let more = Some(logs::router(level));
    let server = metrics::serve(address, access, meter, more, environment.stop.clone()).await?;
    info!(address = %server.address, secure = flags.metrics_secure, "serving metrics");
    Ok(Some(server))
}
