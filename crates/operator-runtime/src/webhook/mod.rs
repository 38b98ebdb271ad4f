//! The server that the API server asks: admission and conversion reviews over HTTPS.
//!
//! It runs in every replica, whichever leads. What the answers are is `operator-core`'s business; here is what keeps
//! strangers from doing harm: anybody in the cluster's network may connect.
//!
//! ```text
//! request -> intake (method, type, length, time, room) -> answer (admission or conversion) -> log, metrics
//!                 \-> refusal: a Status that says what was expected
//! ```

mod answer;
mod intake;
mod refusal;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use axum::{Router, extract::Request, response::Response};
use operator_core::{
    Environment, Registration,
    admission::{Conversion, Endpoint},
    metrics::Metrics,
};
use tokio_util::sync::CancellationToken;

use crate::https::{self, ClientCa, Identity, Server};

/// How long the server goes on as before when the process is asked to stop: until the API server knows of it and
/// asks other replicas.
const WITHDRAWAL: Duration = Duration::from_millis(1500);

/// How many connections are kept open. An API server keeps one for each webhook configuration, or a few.
const CONNECTIONS: usize = 256;

/// The webhooks and conversions of a process, wired to its caches.
pub struct Webhooks {
    served: HashMap<String, Served>,
    metrics: Arc<dyn Metrics>,
}

/// What is served at a path.
enum Served {
    Admission(Box<Endpoint>),
    Conversion(Arc<Conversion>),
}

impl Webhooks {
    /// Wires what the controllers declare. Must be called within a Tokio runtime.
    pub fn build(controllers: &[Registration], environment: &Environment) -> Self {
        let mut served = HashMap::new();
        for controller in controllers {
            for webhook in (controller.webhooks)() {
                let endpoint = Endpoint::build(webhook, controller.name, environment);
                served.insert(endpoint.path().to_owned(), Served::Admission(Box::new(endpoint)));
            }
            for conversion in (controller.conversions)() {
                let path = conversion.path(controller.name);
                served.insert(path, Served::Conversion(Arc::new(conversion)));
            }
        }
        Self { served, metrics: environment.metrics.clone() }
    }

    /// Whether there is nothing to serve.
    pub fn is_empty(&self) -> bool {
        self.served.is_empty()
    }

    /// The routes of all of them. If told to, admission reviews are answered only to clients that have shown a
    /// certificate.
    fn router(self, needs_client_certificate: bool) -> Router {
        let server = Arc::new(answer::Answerer::new(self, needs_client_certificate));
        Router::new().fallback(async move |request: Request| -> Response { server.respond(request).await })
    }
}

/// Serves the webhooks until `stop` and a little longer, then lets reviews that are under way end. With `clients`,
/// admission reviews are answered only to clients with a certificate of that authority.
///
/// # Errors
/// When the address cannot be listened on: it is taken, or not this machine's. When the authority cannot be read.
pub async fn serve(
    address: SocketAddr,
    webhooks: Webhooks,
    identity: Identity,
    clients: Option<ClientCa>,
    stop: CancellationToken,
) -> Result<Server> {
    let (withdrawn, router) = (CancellationToken::new(), webhooks.router(clients.is_some()));
    let server = match clients {
        None => https::serve(address, router, identity, CONNECTIONS, withdrawn.clone()).await,
        Some(clients) => {
            let stop = withdrawn.clone();
            https::serve_asking(address, router, identity, clients, CONNECTIONS, stop).await
        }
    };
    let server =
        server.context("cannot serve the webhooks; choose a free address with --webhook-bind-address")?;
    tokio::spawn(async move {
        stop.cancelled().await;
        tokio::time::sleep(WITHDRAWAL).await;
        withdrawn.cancel();
    });
    Ok(server)
}
