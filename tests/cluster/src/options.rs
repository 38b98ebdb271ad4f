//! What a cluster is to be like.

use crate::binaries::Locator;
use crate::progress::Progress;
use crate::state::StateRoot;

/// How to start a cluster. The default has two simulated nodes and everything that it needs from the environment.
#[derive(Clone, Debug)]
pub struct Options {
    /// A DNS label under which others find the cluster; a unique one is made up when it is absent.
    pub name: Option<String>,
    /// Simulated nodes. With none, kwok runs all the same, for nodes that a test adds itself.
    pub nodes: usize,
    /// Whether pods are bound to nodes.
    pub scheduler: bool,
    /// Further arguments of kube-apiserver; they win over the launcher's own.
    pub api_server_args: Vec<String>,
    /// Further arguments of kube-controller-manager; they win over the launcher's own.
    pub controller_manager_args: Vec<String>,
    /// Where the programs come from; by default as the environment says.
    pub locator: Option<Locator>,
    /// Where the cluster's directory is made; by default as the environment says.
    pub state_root: Option<StateRoot>,
    /// Who is told how it goes.
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            nodes: 2,
            scheduler: true,
            api_server_args: Vec::new(),
            controller_manager_args: Vec::new(),
            locator: None,
            state_root: None,
            progress: Progress::stderr(),
        }
    }
}
