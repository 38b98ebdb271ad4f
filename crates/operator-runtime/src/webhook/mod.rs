//! Webhook server: admission and conversion reviews over HTTPS.
//!
//! Every replica runs it, leader or not. `operator-core` computes the responses. This module limits
//! what a client can use, because every Pod in the cluster network can connect.
//!
//! ```text
//! request -> request_limits (method, type, length, time, memory) -> handler -> logs, metrics
//!                 \-> ErrorResponse (a Status with the expected value)
//! ```

mod handler;
mod request_limits;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use operator_core::{
    Environment, Registration,
    admission::{Conversion, Endpoint},
    metrics::Metrics,
};
use tokio_util::sync::CancellationToken;

use crate::{
    https::{self, ClientCa, Identity, Server},
    server::ask_to_close,
};

/// Time that the server continues after the process is stopped, until the API server sends reviews
/// to other replicas. Each response asks it to close the connection.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(3);

/// Maximum number of open connections. An API server keeps one or a few for each webhook
/// configuration.
const MAX_CONNECTIONS: usize = 256;

/// Admission and conversion webhooks of a process, with their caches.
pub struct Webhooks {
    routes: HashMap<String, Route>,
    metrics: Arc<dyn Metrics>,
}

/// Webhook at a path.
enum Route {
    Admission(Box<Endpoint>),
    Conversion(Arc<Conversion>),
}

impl Webhooks {
    /// Builds the webhooks of the controllers.
    ///
    /// # Panics
    /// Panics outside a Tokio runtime, because it starts informers.
    pub fn build(controllers: &[Registration], environment: &Environment) -> Self {
        let mut routes = HashMap::new();
        for controller in controllers {
            for webhook in (controller.webhooks)() {
                let endpoint = Endpoint::build(webhook, controller.name, environment);
                routes.insert(endpoint.path().to_owned(), Route::Admission(Box::new(endpoint)));
            }
            for conversion in (controller.conversions)() {
                let path = conversion.path(controller.name);
                routes.insert(path, Route::Conversion(Arc::new(conversion)));
            }
        }
        Self { routes, metrics: environment.metrics.clone() }
    }

    /// Returns whether there are no webhooks.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the router. With `needs_client_certificate`, admission reviews require a client
    /// certificate.
    fn router(self, needs_client_certificate: bool) -> Router {
        let handler = Arc::new(handler::Handler::new(self, needs_client_certificate));
        Router::new().fallback(async move |request: Request| -> Response { handler.handle(request).await })
    }
}

/// Serves the webhooks until 3 s after `stop`, then finishes the requests in progress. With
/// `clients`, admission reviews require a certificate that is signed by one of these authorities.
///
/// # Errors
/// Returns an error if the address is in use or does not belong to this machine, or the authorities
/// cannot be read.
pub async fn serve(
    address: SocketAddr,
    webhooks: Webhooks,
    identity: Identity,
    clients: Option<ClientCa>,
    stop: CancellationToken,
) -> Result<Server> {
    let closing = from_fn_with_state(stop.clone(), ask_to_close_after_stop);
    let (server_stop, router) = (CancellationToken::new(), webhooks.router(clients.is_some()).layer(closing));
    let server = match clients {
        None => https::serve(address, router, identity, MAX_CONNECTIONS, server_stop.clone()).await,
        Some(clients) => {
            let stop = server_stop.clone();
            https::serve_with_client_ca(address, router, identity, clients, MAX_CONNECTIONS, stop).await
        }
    };
    let server =
        server.context("cannot serve the webhooks; choose a free address with --webhook-bind-address")?;
    tokio::spawn(async move {
        stop.cancelled().await;
        tokio::time::sleep(SHUTDOWN_DELAY).await;
        server_stop.cancel();
    });
    Ok(server)
}

async fn ask_to_close_after_stop(
    State(stop): State<CancellationToken>,
    request: Request,
    next: Next,
) -> Response {
    let version = request.version();
    let mut response = next.run(request).await;
    if stop.is_cancelled() {
        ask_to_close(version, &mut response);
    }
    response
}
