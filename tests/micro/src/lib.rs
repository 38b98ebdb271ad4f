//! What a manager does for each event, each reconcile and each review, without a cluster; for the benchmarks, which
//! measure time (`hot_paths`) and instructions (`instructions`).
#![allow(clippy::expect_used, reason = "a benchmark that cannot be set up ends")]

mod deployment;
mod pods;
mod review;

use kube::{Client, Config};
use tokio::runtime::Runtime;

/// One thing that is done often.
pub struct HotPath {
    /// What it is, in the words of docs/performance.md.
    pub name: &'static str,
    /// Sets up what it needs, and gives what does it once.
    pub prepare: fn(&'static Runtime) -> Box<dyn FnMut()>,
}

/// All of them.
pub const HOT_PATHS: [HotPath; 5] = [
    HotPath { name: "pod of an event decoded", prepare: pods::decoded },
    HotPath { name: "pods of one owner of 1,000", prepare: pods::found },
    HotPath { name: "pod changed in a store of 10,000", prepare: pods::changed },
    HotPath { name: "Deployment compared, nothing to write", prepare: deployment::compared },
    HotPath { name: "review of a Tenant", prepare: review::answered },
];

/// A client of nobody: what is measured sends nothing.
fn nobody() -> Client {
    let mut config = Config::new("http://127.0.0.1:1".parse().expect("a URI"));
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}
