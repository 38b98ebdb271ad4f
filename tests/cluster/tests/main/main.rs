//! Tests of the launcher with real clusters.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod background;
mod identity;
mod lifecycle;
mod workloads;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cluster::{Component, wait};

const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until the processes and the directory no longer exist.
async fn until_removed(pids: &BTreeMap<Component, u32>, dir: &Path) {
    wait::eventually("the processes and the directory to be removed", PATIENCE, async || {
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
