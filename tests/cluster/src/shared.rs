//! The control plane that the tests of one process share.

use anyhow::{Result, anyhow};
use tokio::sync::OnceCell;

use crate::attach::{attach, attach_if_running};
use crate::{Cluster, Options};

/// Names the cluster that tests are to use: its name, its directory or its kubeconfig.
pub const CLUSTER_VARIABLE: &str = "ENSEMBLE_TEST_CLUSTER";

/// A running cluster of this name is used without being asked for.
const WELL_KNOWN: &str = "test";

static SHARED: OnceCell<Result<Cluster, String>> = OnceCell::const_new();

/// The one control plane of this test process, with two simulated nodes, started by whoever asks first.
///
/// `$ENSEMBLE_TEST_CLUSTER` or a running cluster named `test` is used instead if there is one: it saves each test process the start, which a runner
/// with one process per test pays for every test. Tests must
/// therefore expect strangers: work in namespaces of their own, give cluster-scoped objects unique names, and ask for [`isolated`] if
/// that is not enough.
///
/// # Errors
/// As [`Cluster::start`]; every caller gets the same error, for a second try would take as long and fail the same way.
pub async fn shared() -> Result<&'static Cluster> {
    let cluster =
        SHARED.get_or_init(async || find_or_start().await.map_err(|error| format!("{error:#}"))).await;
    cluster.as_ref().map_err(|error| anyhow!("the shared test cluster: {error}"))
}

/// A cluster for one test alone, gone when dropped: an etcd and control plane of its own, so that nothing cluster-scoped is shared and its parts
/// can be stopped and started.
pub async fn isolated() -> Result<Cluster> {
    Cluster::start(Options::default()).await
}

async fn find_or_start() -> Result<Cluster> {
    if let Some(wanted) = std::env::var_os(CLUSTER_VARIABLE).filter(|wanted| !wanted.is_empty()) {
        return attach(&wanted.to_string_lossy());
    }
    match attach_if_running(WELL_KNOWN)? {
        Some(cluster) => Ok(cluster),
        None => Cluster::start(Options::default()).await,
    }
}
