//! The metrics server.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result, bail};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::get,
};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{
    Meter,
    authorization::{Authorizer, authorize},
};
use crate::{
    https::{self, Identity, Server},
    server,
};

/// How many connections are kept open: several collectors, and people.
const CONNECTIONS: usize = 64;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Who is let in, and how.
pub enum Door {
    /// Everybody on this machine, without TLS.
    Open,
    /// Over TLS, whoever the API server says may.
    Guarded {
        /// What the server shows.
        identity: Identity,
        /// Asks the API server.
        client: Client,
    },
}

/// Serves `/metrics` until `stop`, and behind the same door `more`: other paths for those who look
/// after the process.
///
/// # Errors
/// When the address cannot be listened on: it is taken, not this machine's, or open to others
/// without a guard.
pub async fn serve(
    address: SocketAddr,
    door: Door,
    meter: Arc<Meter>,
    more: Option<Router>,
    stop: CancellationToken,
) -> Result<Server> {
    may_listen(address, matches!(door, Door::Guarded { .. }))?;
    let router =
        Router::new().route("/metrics", get(metrics)).with_state(meter).merge(more.unwrap_or_default());
    let server = match door {
        Door::Open => server::bind(address).await.map(|(listener, address)| Server {
            address,
            task: server::spawn(listener, None, router, CONNECTIONS, stop),
        }),
        Door::Guarded { identity, client } => {
            let router = router.route_layer(from_fn_with_state(Authorizer::new(client), authorize));
            https::serve(address, router, identity, CONNECTIONS, stop).await
        }
    };
    server
        .context("cannot serve the metrics; choose a free address with --metrics-bind-address, or 0 for none")
}

/// Whether metrics may be served at this address.
///
/// # Errors
/// When they would be served to other machines without asking who comes.
pub fn may_listen(address: SocketAddr, secure: bool) -> Result<()> {
    if !secure && !address.ip().is_loopback() {
        bail!(
            "--metrics-secure=false would show the metrics to everybody who reaches {address}; use an address of \
             this machine alone, such as 127.0.0.1:8443, or leave it out"
        );
    }
    Ok(())
}

async fn metrics(State(meter): State<Arc<Meter>>) -> Response {
    match meter.encode() {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n").into_response(),
    }
}

#[cfg(test)]
mod tests;
