//! Cache of all Leases of a process, fed by one watch. A candidate reads its Lease before it acquires
//! it. The order of the events proves which Leases a renewal of the anchor renewed.

use std::{collections::BTreeMap, pin::pin};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{Config, Event, watcher},
    },
};
use lease::{LeaseRecord, anchor_name, record_with_anchor};
use operator_core::{labels::MANAGED_SELECTOR, watch_connection::WATCH_SECONDS};
use tokio::sync::watch;
use tracing::{debug, warn};

/// Leases as the watch last delivered them.
#[derive(Clone, Default)]
pub(super) struct LeaseCache {
    /// Whether the watch is working, as far as is known.
    pub(super) is_live: bool,
    leases: BTreeMap<String, Lease>,
}

impl LeaseCache {
    /// Returns the Leases as they were at one moment: the watch delivers changes in their order.
    pub(super) fn leases(&self) -> &BTreeMap<String, Lease> {
        &self.leases
    }

    /// Returns a Lease with what is known about its anchor.
    pub(super) fn record(&self, name: &str) -> Option<LeaseRecord> {
        let lease = self.leases.get(name)?;
        Some(record_with_anchor(lease, anchor_name(lease).and_then(|anchor| self.leases.get(anchor))))
    }
}

/// Keeps the cache up to date. Never returns. The client of `api` must detect dead connections.
pub(super) async fn run(api: Api<Lease>, cache: watch::Sender<LeaseCache>) {
    let config = Config::default().labels(MANAGED_SELECTOR).timeout(WATCH_SECONDS);
    let mut events =
        pin!(watcher(api, config).default_backoff().modify(|lease| lease.metadata.managed_fields = None));
    let mut listed = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => apply(&cache, &mut listed, event),
            Err(error) => watch_failed(&cache, &error),
        }
    }
}

fn apply(cache: &watch::Sender<LeaseCache>, listed: &mut BTreeMap<String, Lease>, event: Event<Lease>) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(lease) => {
            listed.insert(lease.name_any(), lease);
        }
        Event::InitDone => {
            let leases = std::mem::take(listed);
            cache.send_replace(LeaseCache { is_live: true, leases });
        }
        Event::Apply(lease) => cache.send_modify(|cache| {
            cache.is_live = true;
            cache.leases.insert(lease.name_any(), lease);
        }),
        Event::Delete(lease) => cache.send_modify(|cache| {
            cache.is_live = true;
            cache.leases.remove(&lease.name_any());
        }),
    }
}

fn watch_failed(cache: &watch::Sender<LeaseCache>, error: &kube::runtime::watcher::Error) {
    if cache.borrow().is_live {
        debug!(%error, "the watch of the Leases failed");
    } else {
        warn!(%error, "cannot watch the Leases; polling them instead");
    }
    cache.send_modify(|cache| cache.is_live = false);
}
