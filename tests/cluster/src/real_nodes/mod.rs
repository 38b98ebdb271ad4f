//! Real nodes: kubelets with containerd, each in Linux namespaces of its own, that run containers.
//!
//! Nothing on the host changes: the nodes have a network, mounts, and process IDs of their own, and
//! cgroups. All of it ends with the process that owns the cluster.

mod add_ons;
mod config;
mod connect_proxy;
mod forwarded_port;
mod forwarder;
pub(crate) mod image_store;
mod inotify;
mod log;
mod namespaces;
mod network;
mod node;
mod policies;
mod requirements;
mod switch;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub(crate) use add_ons::{apply as apply_add_ons, wait as wait_for_add_ons};
pub use forwarded_port::ForwardedPort;
pub(crate) use inotify::check_inotify;
pub use network::NodeNetwork;
pub use node::NodeProgram;
pub use requirements::{PACKAGES, check, missing};

pub use crate::addresses::MAX_REAL_NODES;
use crate::cgroups;
use crate::components::Layout;
use crate::lifeline::Lifeline;
use crate::pki::{Authority, write_private};
use log::Log;
use node::{Node, Shared};
use policies::{Inits, Policies};
use switch::Switch;

const SWITCH_DOES_NOT_RUN: &str = "the switch of the nodes does not run";

/// The real nodes of a cluster and their switch.
#[derive(Debug)]
pub(crate) struct RealNodes {
    cluster_dir: PathBuf,
    switch: Option<Switch>,
    policies: Option<Policies>,
    nodes: Vec<Node>,
}

impl RealNodes {
    /// Writes the files of `count` nodes and of the API server's connections to them. Starts
    /// nothing.
    pub(crate) fn prepare(
        layout: &Layout,
        binaries: &Path,
        authority: &Authority,
        count: usize,
    ) -> Result<Self> {
        let client = authority.client("kube-apiserver-kubelet-client", &["system:masters"])?;
        let egress = config::egress_selector(&Switch::proxy_socket(layout.dir()));
        write_private(&layout.path("pki/kubelet-client.crt"), &client.certificate)?;
        write_private(&layout.path("pki/kubelet-client.key"), &client.key)?;
        write_private(&layout.path("egress-selector.json"), &egress.to_string())?;
        let shared = Shared {
            cluster_dir: layout.dir().to_owned(),
            cgroup: cgroups::name(layout.dir()),
            binaries: binaries.to_owned(),
        };
        let nodes = (0..count).map(|index| Node::prepare(shared.clone(), index, authority));
        let cluster_dir = layout.dir().to_owned();
        Ok(Self { cluster_dir, switch: None, policies: None, nodes: nodes.collect::<Result<_>>()? })
    }

    /// Starts the switch, and boots the nodes. The API server need not run yet.
    pub(crate) fn boot(
        &mut self,
        api_server: u16,
        registry: axum::Router,
        lifeline: &Lifeline,
    ) -> Result<()> {
        let switch = Switch::start(&self.cluster_dir, self.nodes.len(), api_server, registry, lifeline)?;
        let switch = self.switch.insert(switch);
        self.nodes.iter_mut().try_for_each(|node| node.boot(switch, lifeline))
    }

    /// Starts the kubelets, and enforces NetworkPolicies. The API server must be ready.
    pub(crate) fn join(&mut self, kubeconfig: PathBuf, lifeline: &Lifeline) -> Result<()> {
        self.policies = Some(Policies::start(
            kubeconfig,
            self.inits(),
            Log::new(&self.cluster_dir.join("nodes/policies.log")),
        )?);
        self.nodes.iter_mut().try_for_each(|node| node.join(lifeline))
    }

    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        if let Some(switch) = &mut self.switch {
            switch.ensure_running()?;
        }
        self.nodes.iter_mut().try_for_each(Node::ensure_running)
    }

    /// Cuts or restores the link of a node.
    pub(crate) fn set_link(&self, name: &str, up: bool) -> Result<()> {
        let node = self.nodes.iter().find(|node| node.name() == name).with_context(|| unknown(name))?;
        let switch = self.switch.as_ref().context(SWITCH_DOES_NOT_RUN)?;
        switch.set_link(&node.interface(), up)
    }

    /// Returns the network of a node.
    pub(crate) fn network(&mut self, name: &str) -> Result<NodeNetwork> {
        Ok(NodeNetwork { init: self.node(name)?.init()? })
    }

    /// Kills a program on a node. Containers go on running.
    pub(crate) fn kill(&mut self, name: &str, program: NodeProgram, lifeline: &Lifeline) -> Result<()> {
        self.node(name)?.kill(program, lifeline)
    }

    /// Starts a program on a node.
    pub(crate) fn start(&mut self, name: &str, program: NodeProgram, lifeline: &Lifeline) -> Result<()> {
        self.node(name)?.start(program, lifeline)
    }

    /// Ends everything on a node at once.
    pub(crate) fn power_off(&mut self, name: &str, lifeline: &Lifeline) -> Result<()> {
        let node = self.node(name)?;
        node.power_off(lifeline)?;
        let interface = node.interface();
        self.switch.as_ref().context(SWITCH_DOES_NOT_RUN)?.disconnect(&interface)?;
        self.update_policies();
        Ok(())
    }

    /// Starts a node after a power loss.
    pub(crate) fn power_on(&mut self, name: &str, lifeline: &Lifeline) -> Result<()> {
        let switch = self.switch.as_ref().context(SWITCH_DOES_NOT_RUN)?;
        let node = self.nodes.iter_mut().find(|node| node.name() == name).with_context(|| unknown(name))?;
        node.boot(switch, lifeline)?;
        self.update_policies();
        self.node(name)?.join(lifeline)
    }

    fn update_policies(&self) {
        if let Some(policies) = &self.policies {
            policies.set_nodes(self.inits());
        }
    }

    /// Returns the nodes that are on.
    fn inits(&self) -> Inits {
        self.nodes.iter().filter_map(|node| Some((node.name().to_owned(), node.init().ok()?))).collect()
    }

    /// Waits for processes that the lifeline has killed.
    pub(crate) fn reap(&mut self) {
        if let Some(policies) = &mut self.policies {
            policies.stop();
        }
        self.nodes.iter_mut().for_each(Node::reap);
        if let Some(switch) = &mut self.switch {
            switch.reap();
        }
    }

    fn node(&mut self, name: &str) -> Result<&mut Node> {
        self.nodes.iter_mut().find(|node| node.name() == name).with_context(|| unknown(name))
    }
}

fn unknown(name: &str) -> String {
    format!("the cluster has no real node {name}")
}
