//! Requests of the manager, from the audit log of the API server.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use cluster::{Cluster, audit::AuditLog, audit::Mark, wait::eventually};
use local_manager::launch::user;

use crate::TIMEOUT;

/// Returns the requests of the manager since a mark.
pub(crate) fn manager_requests(cluster: &Cluster, since: Mark) -> Result<AuditLog> {
    Ok(cluster.audit_since(since)?.by_user(&user()))
}

/// Removes the requests of an idle manager: watches and renewals of Leases.
pub(crate) fn without_background(log: AuditLog) -> AuditLog {
    log.filter(|entry| entry.verb != "watch" && entry.resource != "leases")
}

/// Counts requests by verb and resource, such as `update podsets/status`.
pub(crate) fn count_requests(log: &AuditLog) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in &log.entries {
        let subresource =
            if entry.subresource.is_empty() { String::new() } else { format!("/{}", entry.subresource) };
        *counts.entry(format!("{} {}{subresource}", entry.verb, entry.resource)).or_insert(0) += 1;
    }
    counts
}

/// Waits until the manager has sent only watches and renewals of Leases for this time.
pub(crate) async fn wait_until_idle(cluster: &Cluster, window: Duration) -> Result<()> {
    let mut since = Instant::now();
    let mut mark = cluster.audit_mark()?;
    eventually("the manager to be idle", TIMEOUT, async || {
        if !without_background(manager_requests(cluster, mark)?).entries.is_empty() {
            mark = cluster.audit_mark()?;
            since = Instant::now();
        }
        Ok(since.elapsed() >= window)
    })
    .await
}
