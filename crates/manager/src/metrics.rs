//! Serving the metrics.

use std::sync::Arc;

use anyhow::Result;
use operator_core::Environment;
use operator_runtime::{
    https::{Identity, Server},
    logs::{self, Level},
    metrics::{self, Door, Meter},
};
use tracing::info;

use crate::Flags;

/// The most requests that authorize scrapes have in flight at once.
const MAX_IN_FLIGHT_SCRAPES: usize = 4;

/// Serves the metrics, and behind the same door the level of the logs, unless that is switched off.
pub(crate) async fn serve(
    flags: &Flags,
    environment: &Environment,
    identity: &Identity,
    meter: Arc<Meter>,
    level: Level,
) -> Result<Option<Server>> {
    let Some(address) = flags.metrics_bind_address else { return Ok(None) };
    // A scrape must not wait for requests of controllers, nor hold up reviews.
    let client = environment.clients.with_own_limit(MAX_IN_FLIGHT_SCRAPES).named("metrics-auth");
    let identity = identity.clone();
    let door = if flags.metrics_secure { Door::Guarded { identity, client } } else { Door::Open };
    let more = Some(logs::router(level));
    let server = metrics::serve(address, door, meter, more, environment.stop.clone()).await?;
    info!(address = %server.address, secure = flags.metrics_secure, "the metrics are served");
    Ok(Some(server))
}
