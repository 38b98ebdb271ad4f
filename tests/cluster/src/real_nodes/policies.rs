//! Enforces NetworkPolicies on the real nodes, on a thread of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::sync::watch;

use super::log::Log;
use super::namespaces::run_in_network;
use crate::kubeconfig;

/// Nodes that are on, with the IDs of their first processes.
pub(super) type Inits = BTreeMap<String, u32>;

/// The thread that enforces policies. Dropping the sender stops it.
#[derive(Debug)]
pub(super) struct Policies {
    nodes: Option<watch::Sender<Inits>>,
    thread: Option<JoinHandle<()>>,
}

impl Policies {
    /// Starts to enforce policies on `nodes`. The API server must be ready.
    pub(super) fn start(kubeconfig: PathBuf, nodes: Inits, log: Log) -> Result<Self> {
        let (sender, receiver) = watch::channel(nodes);
        let thread = std::thread::Builder::new()
            .name("policies".to_owned())
            .spawn(move || {
                if let Err(error) = run(kubeconfig, receiver, &log) {
                    log.report(&format!("NetworkPolicies are not enforced: {error:#}"));
                }
            })
            .context("start the thread that enforces NetworkPolicies")?;
        Ok(Self { nodes: Some(sender), thread: Some(thread) })
    }

    /// Replaces the nodes. A node that has booted again has lost its rules.
    pub(super) fn set_nodes(&self, nodes: Inits) {
        if let Some(sender) = &self.nodes {
            sender.send_replace(nodes);
        }
    }

    pub(super) fn stop(&mut self) {
        drop(self.nodes.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been printed by the thread.
            let _ = thread.join();
        }
    }
}

fn run(kubeconfig: PathBuf, nodes: watch::Receiver<Inits>, log: &Log) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("start a runtime")?.block_on(enforce(kubeconfig, nodes, log))
}

/// Enforces policies until the sender of `nodes` is dropped.
async fn enforce(kubeconfig: PathBuf, mut nodes: watch::Receiver<Inits>, log: &Log) -> Result<()> {
    let client = Client::try_from(kubeconfig::load(&kubeconfig).await?).context("create a client")?;
    loop {
        let inits = nodes.borrow_and_update().clone();
        let names: Vec<_> = inits.keys().cloned().collect();
        let apply = |node: String, rules: String| {
            let init = inits.get(&node).copied();
            async move {
                let applied = apply(init, rules).await;
                applied
                    .inspect_err(|error| log.report(&format!("cannot apply the rules of {node}: {error:#}")))
            }
        };
        tokio::select! {
            never = network_policies::enforce(client.clone(), names, apply) => match never {},
            changed = nodes.changed() => if changed.is_err() { return Ok(()) },
        }
    }
}

async fn apply(init: Option<u32>, rules: String) -> Result<()> {
    let init = init.context("the node is off")?;
    let run = move || run_in_network(init, &["nft", "-f", "-"], &rules);
    tokio::task::spawn_blocking(run).await.context("the thread that runs nft panicked")?
}
