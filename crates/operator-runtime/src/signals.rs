//! Shutdown signals.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Time after the first signal during which a second one is ignored. A terminal sends SIGINT to the
/// whole process group, and a parent process forwards it.
const REPEAT_WINDOW: Duration = Duration::from_millis(500);

/// Returns a token that SIGTERM and SIGINT cancel. A second signal, half a second later or more,
/// exits the process immediately.
///
/// # Errors
/// Returns an error if a signal handler cannot be installed.
pub fn stop_on_signal() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    let cancelled = stop.clone();
    tokio::spawn(async move {
        let mut stopping_since: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            match stopping_since {
                Some(since) if since.elapsed() < REPEAT_WINDOW => {}
                Some(_) => std::process::exit(1),
                None => {
                    info!("stopping; a second signal stops at once");
                    stopping_since = Some(Instant::now());
                    cancelled.cancel();
                }
            }
        }
    });
    Ok(stop)
}
