//! Hot paths of a manager: what it does for each event, reconcile, and review, without a cluster.
//! The benchmark `hot_paths` measures their time, `instructions` counts their instructions, and `memory` measures
//! the memory of a cached Pod.
#![allow(clippy::expect_used, clippy::missing_panics_doc, reason = "a benchmark that cannot be set up ends")]

mod deployment;
mod pods;
mod review;

use kube::{Client, Config};
pub use pods::CachedPods;
use tokio::runtime::Runtime;

/// An operation that a manager runs often.
pub struct HotPath {
    /// Name in docs/performance.md.
    pub name: &'static str,
    /// Sets up the operation and returns a closure that runs it once.
    pub prepare: fn(&'static Runtime) -> Box<dyn FnMut()>,
}

/// All hot paths.
pub const HOT_PATHS: [HotPath; 5] = [
    HotPath { name: "pod of an event decoded", prepare: pods::decode },
    HotPath { name: "pods of one owner of 1,000", prepare: pods::find_by_owner },
    HotPath { name: "pod changed in a store of 10,000", prepare: pods::update },
    HotPath { name: "Deployment compared, nothing to write", prepare: deployment::compare },
    HotPath { name: "review of a Tenant", prepare: review::answer },
];

/// Returns a client that cannot connect. The hot paths send no requests.
fn offline_client() -> Client {
    let mut config = Config::new("http://127.0.0.1:1".parse().expect("a URI"));
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}
