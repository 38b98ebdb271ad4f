//! What several measurements need.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use cluster::{Cluster, audit::AuditLog, audit::Mark, wait::eventually};

use super::PATIENCE;
use crate::stage::user;

/// What the manager has asked of the API server since then.
pub(super) fn asked(cluster: &Cluster, since: Mark) -> Result<AuditLog> {
    Ok(cluster.audit_since(since)?.by_user(&user()))
}

/// Without what goes on while nothing changes: watches, and renewals of leases.
pub(super) fn besides_upkeep(log: AuditLog) -> AuditLog {
    log.filter(|entry| entry.verb != "watch" && entry.resource != "leases")
}

/// How often what was asked for: `update podsets/status`, say.
pub(super) fn counted(log: &AuditLog) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in &log.entries {
        let subresource =
            if entry.subresource.is_empty() { String::new() } else { format!("/{}", entry.subresource) };
        *counts.entry(format!("{} {}{subresource}", entry.verb, entry.resource)).or_insert(0) += 1;
    }
    counts
}

/// Waits until the manager has asked for nothing but watches and renewals of leases for a while.
pub(super) async fn until_silent(cluster: &Cluster, window: Duration) -> Result<()> {
    let mut since = Instant::now();
    let mut mark = cluster.audit_mark()?;
    eventually("the manager to fall silent", PATIENCE, async || {
        if !besides_upkeep(asked(cluster, mark)?).entries.is_empty() {
            mark = cluster.audit_mark()?;
            since = Instant::now();
        }
        Ok(since.elapsed() >= window)
    })
    .await
}
