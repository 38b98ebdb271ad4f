//! Health endpoints `/healthz` and `/readyz`.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use axum::{Router, extract::State, http::StatusCode, routing::get};
use operator_core::informer::Informers;
use tokio_util::sync::CancellationToken;

use crate::server::{self, Limits};

/// Maximum number of open connections. A kubelet closes its connection after each probe.
const MAX_CONNECTIONS: usize = 64;

/// A condition that must hold before the process is ready, besides synced caches.
#[derive(Clone)]
pub struct ReadinessCheck {
    /// Description in the response of `/readyz`, such as `a certificate`.
    pub description: &'static str,
    /// Returns whether the condition holds.
    pub is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// State that the health endpoints report.
#[derive(Clone)]
pub struct Readiness {
    /// Informers of the process. Each cache must be synced.
    pub informers: Informers,
    /// Further conditions that must hold.
    pub checks: Vec<ReadinessCheck>,
    /// Cancelled when the process stops, which makes it unready.
    pub stop: CancellationToken,
}

/// Serves the health endpoints until the process stops.
///
/// - `/healthz` returns 200 as long as the process responds.
/// - `/readyz` returns 200 once all caches have synced and all conditions hold. Before that, and
///   when the process stops, it returns 503 and lists what is missing. A process that watches
///   selected namespaces lists the namespaces for which it lacks rights, and is ready without them
///   if at least one other namespace is left.
///
/// # Errors
/// Returns an error if the address is in use or does not belong to this machine.
pub async fn serve(address: SocketAddr, readiness: Readiness) -> Result<()> {
    let (listener, _) = server::bind(address).await.with_context(|| {
        format!(
            "cannot serve the probes on {address}; choose a free address with --health-probe-bind-address"
        )
    })?;
    let stop = readiness.stop.clone();
    server::spawn(
        listener,
        None,
        server::router_handler(router(readiness)),
        Limits::short(MAX_CONNECTIONS),
        stop,
    );
    Ok(())
}

fn router(readiness: Readiness) -> Router {
    Router::new().route("/healthz", get(async || "ok")).route("/readyz", get(ready)).with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let missing = readiness.checks.iter().filter(|check| !(check.is_ready)());
    let missing: Vec<_> = missing.map(|check| check.description).collect();
    let informers = &readiness.informers;
    response(&informers.unsynced(), &informers.forbidden(), &missing, readiness.stop.is_cancelled())
}

fn response(
    unsynced: &[String],
    refused: &[String],
    missing: &[&str],
    stopping: bool,
) -> (StatusCode, String) {
    if stopping {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping".to_owned());
    }
    let lists = (!unsynced.is_empty()).then(|| format!("the first list of {}", unsynced.join(", ")));
    let waits: Vec<_> = lists.into_iter().chain(missing.iter().map(|what| (*what).to_owned())).collect();
    if waits.is_empty() && refused.is_empty() {
        return (StatusCode::OK, "ok".to_owned());
    }
    if waits.is_empty() {
        return (StatusCode::OK, format!("ok; without rights to watch {}", refused.join(", ")));
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {}", waits.join(", and for ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_synced_until_stop() {
        assert_eq!(response(&[], &[], &[], false), (StatusCode::OK, "ok".into()));
        assert_eq!(response(&[], &[], &[], true).0, StatusCode::SERVICE_UNAVAILABLE);
        let unsynced = ["Pod".into(), "PodSet".into()];
        let (status, body) = response(&unsynced, &[], &[], false);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, "waiting for the first list of Pod, PodSet");
        let (_, body) = response(&unsynced, &[], &["a certificate"], false);
        assert_eq!(body, "waiting for the first list of Pod, PodSet, and for a certificate");
    }

    #[test]
    fn lists_forbidden_namespace_and_stays_ready() {
        let (status, body) = response(&[], &["Pod in shop".into()], &[], false);
        assert_eq!((status, &*body), (StatusCode::OK, "ok; without rights to watch Pod in shop"));
    }
}
