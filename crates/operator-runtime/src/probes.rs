//! `/healthz` and `/readyz`, for kubelets and people.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::{Router, extract::State, http::StatusCode, routing::get};
use operator_core::informer::Informers;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves the probes until `stop`.
///
/// - `/healthz` answers 200 for as long as the process works at all.
/// - `/readyz` answers 200 once every informer has been filled, and 503 with the missing kinds until then and
///   again when the process stops.
///
/// # Errors
/// When the address cannot be listened on: it is taken, or not this machine's.
pub async fn serve(address: SocketAddr, informers: Informers, stop: CancellationToken) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot serve the probes on {address}; choose a free address with --health-probe-bind-address"
        )
    })?;
    let router = router(informers, stop.clone());
    tokio::spawn(async move {
        axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
    });
    Ok(())
}

fn router(informers: Informers, stop: CancellationToken) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .with_state((informers, stop))
}

async fn ready(State((informers, stop)): State<(Informers, CancellationToken)>) -> (StatusCode, String) {
    readiness(&informers.unsynced(), stop.is_cancelled())
}

fn readiness(unsynced: &[String], stopping: bool) -> (StatusCode, String) {
    match (stopping, unsynced) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "stopping".to_owned()),
        (false, []) => (StatusCode::OK, "ok".to_owned()),
        (false, kinds) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for the first list of {}", kinds.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_nothing_is_missing_and_until_it_stops() {
        assert_eq!(readiness(&[], false), (StatusCode::OK, "ok".into()));
        assert_eq!(readiness(&[], true).0, StatusCode::SERVICE_UNAVAILABLE);
        let (status, body) = readiness(&["Pod".into(), "PodSet".into()], false);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, "waiting for the first list of Pod, PodSet");
    }
}
