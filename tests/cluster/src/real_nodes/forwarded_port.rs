//! A port of this machine that leads to a server in the network of the nodes.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use super::switch::Switch;
use super::{connect_proxy, forwarder};

/// A port of this machine that leads to a Pod or a node. It is closed when this is dropped.
///
/// Unlike `kubectl port-forward`, it leads through neither the API server nor a kubelet, and its connections have
/// nothing in common.
#[derive(Debug)]
pub struct ForwardedPort {
    address: SocketAddr,
    _server: JoinSet<Result<()>>,
}

impl ForwardedPort {
    /// Listens for connections to `server`, which the switch of the cluster in this directory can reach.
    pub(crate) fn listen(cluster_dir: &Path, server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen on a forwarded port")?;
        let address = listener.local_addr().context("read the address of a forwarded port")?;
        let socket = Switch::proxy_socket(cluster_dir);
        let mut tasks = JoinSet::new();
        tasks.spawn(forwarder::serve(listener, move || {
            connect_proxy::connect_through(socket.clone(), server)
        }));
        Ok(Self { address, _server: tasks })
    }

    /// Returns the address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
