//! One watch for all Leases of a process. What it says are hints: whoever acts on them looks for himself.

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
use operator_core::labels::MANAGED_SELECTOR;
use tokio::sync::watch;
use tracing::{debug, warn};

use super::{lease::seen, machine::Seen};

/// How long a watch lasts before it is opened anew, in seconds; a connection that died in silence is noticed by then.
const WATCH_SECONDS: u32 = 55;

/// The Leases as last heard of.
#[derive(Clone, Default)]
pub(super) struct Board {
    /// Whether changes are heard of at present, as far as we know.
    pub(super) is_live: bool,
    leases: BTreeMap<String, Seen>,
}

impl Board {
    pub(super) fn get(&self, name: &str) -> Option<&Seen> {
        self.leases.get(name)
    }
}

/// Keeps the board for ever.
pub(super) async fn follow(api: Api<Lease>, board: watch::Sender<Board>) {
    let config = Config::default().labels(MANAGED_SELECTOR).timeout(WATCH_SECONDS);
    let mut events = pin!(watcher(api, config).default_backoff());
    let mut listed = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => take_in(&board, &mut listed, event),
            Err(error) => broke(&board, &error),
        }
    }
}

fn take_in(board: &watch::Sender<Board>, listed: &mut BTreeMap<String, Seen>, event: Event<Lease>) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(lease) => {
            listed.insert(lease.name_any(), seen(&lease));
        }
        Event::InitDone => {
            let leases = std::mem::take(listed);
            board.send_replace(Board { is_live: true, leases });
        }
        Event::Apply(lease) => board.send_modify(|board| {
            board.is_live = true;
            board.leases.insert(lease.name_any(), seen(&lease));
        }),
        Event::Delete(lease) => board.send_modify(|board| {
            board.is_live = true;
            board.leases.remove(&lease.name_any());
        }),
    }
}

fn broke(board: &watch::Sender<Board>, error: &kube::runtime::watcher::Error) {
    if board.borrow().is_live {
        debug!(%error, "the watch of the Leases broke");
    } else {
        warn!(%error, "cannot watch the Leases; reading them one by one");
    }
    board.send_modify(|board| board.is_live = false);
}
