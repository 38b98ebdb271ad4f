//! The control plane that all tests of a process share.

use anyhow::{Result, anyhow};
use tokio::sync::OnceCell;

use crate::attach::{attach, attach_if_running};
use crate::{Cluster, Options};

/// Environment variable that selects the cluster for tests by its name, directory, or kubeconfig.
pub const CLUSTER_VARIABLE: &str = "ENSEMBLE_TEST_CLUSTER";

/// A running cluster with this name is used by default.
const DEFAULT_NAME: &str = "test";

static SHARED: OnceCell<Result<Cluster, String>> = OnceCell::const_new();

/// Returns the control plane of this test process, with two simulated nodes. The first caller
/// starts it.
///
/// Attaches to the cluster in `$ENSEMBLE_TEST_CLUSTER`, or to a running cluster named `test`, if
/// there is one. This saves the start in each test process. Other tests can therefore run on the
/// same cluster: use your own namespaces, give cluster-scoped objects unique names, or use
/// [`isolated`].
///
/// # Errors
/// As [`Cluster::start`]. Every caller gets the same error: another attempt would take as long and
/// fail for the same cause.
pub async fn shared() -> Result<&'static Cluster> {
    let cluster =
        SHARED.get_or_init(async || find_or_start().await.map_err(|error| format!("{error:#}"))).await;
    cluster.as_ref().map_err(|error| anyhow!("the shared test cluster: {error}"))
}

/// Starts a cluster for one test. It has its own etcd and control plane, whose components can be
/// stopped and started. It is removed when dropped.
pub async fn isolated() -> Result<Cluster> {
    Cluster::start(Options::default()).await
}

async fn find_or_start() -> Result<Cluster> {
    if let Some(wanted) = std::env::var_os(CLUSTER_VARIABLE).filter(|wanted| !wanted.is_empty()) {
        return attach(&wanted.to_string_lossy());
    }
    match attach_if_running(DEFAULT_NAME)? {
        Some(cluster) => Ok(cluster),
        None => Cluster::start(Options::default()).await,
    }
}
