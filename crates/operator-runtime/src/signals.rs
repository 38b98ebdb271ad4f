//! Stopping when asked.

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// A token that SIGTERM and SIGINT cancel. A second signal ends the process at once.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn stop_on_signal() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    let cancelled = stop.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if cancelled.is_cancelled() {
                std::process::exit(1);
            }
            info!("stopping; a second signal stops at once");
            cancelled.cancel();
        }
    });
    Ok(stop)
}
