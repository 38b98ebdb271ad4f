//! The launcher on the real thing.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed assumption of a test is its failure"
)]

mod background;
mod identity;
mod lifecycle;
mod workloads;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cluster::{Component, wait};

const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until neither processes nor directory are there.
async fn nothing_is_left(pids: &BTreeMap<Component, u32>, dir: &Path) {
    wait::eventually("everything to be gone", PATIENCE, async || {
        let alive: Vec<_> = pids.iter().filter(|(_, pid)| cluster::state::is_alive(**pid)).collect();
        Ok(if alive.is_empty() && !dir.exists() {
            Ok(())
        } else {
            Err(format!("{alive:?}, directory: {}", dir.exists()))
        })
    })
    .await
    .unwrap();
}
