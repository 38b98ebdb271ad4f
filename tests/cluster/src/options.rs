//! Options of a cluster.

use crate::binaries::Locator;
use crate::progress::Progress;
use crate::snapshot::Snapshot;
use crate::state::StateRoot;

/// Options of a cluster. By default it has two simulated nodes and reads its settings from the
/// environment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the cluster, a DNS label. By default a unique name is generated.
    pub name: Option<String>,
    /// Number of simulated nodes. kwok also runs with zero nodes and manages the nodes that a test
    /// creates.
    pub nodes: usize,
    /// Number of real nodes, at most [`MAX_REAL_NODES`](crate::real_nodes::MAX_REAL_NODES). They run
    /// containers, and need root and the programs that [`check`](crate::real_nodes::check) names.
    pub real_nodes: usize,
    /// Whether kube-controller-manager, kube-scheduler, and kwok run. Without them, there are no
    /// nodes.
    pub controllers: bool,
    /// Whether kube-scheduler runs.
    pub scheduler: bool,
    /// Objects that the cluster has from the beginning.
    pub snapshot: Option<Snapshot>,
    /// Additional arguments of kube-apiserver. They override the defaults.
    pub api_server_args: Vec<String>,
    /// Additional arguments of kube-controller-manager. They override the defaults.
    pub controller_manager_args: Vec<String>,
    /// Locator of the programs, with the release of Kubernetes. By default the environment selects it.
    pub locator: Option<Locator>,
    /// Parent of the cluster's directory. By default the environment selects it.
    pub state_root: Option<StateRoot>,
    /// Receiver of progress reports.
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            nodes: 2,
            real_nodes: 0,
            controllers: true,
            scheduler: true,
            snapshot: None,
            api_server_args: Vec::new(),
            controller_manager_args: Vec::new(),
            locator: None,
            state_root: None,
            progress: Progress::stderr(),
        }
    }
}
