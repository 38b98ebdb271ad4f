//! Connections from a real node.

use std::net::SocketAddr;
use std::thread;

use anyhow::{Context as _, Result};
use tokio::net::TcpStream;

use super::namespaces::enter_network;

/// The network of a real node. It ends with the node.
#[derive(Clone, Copy, Debug)]
pub struct NodeNetwork {
    pub(super) init: u32,
}

impl NodeNetwork {
    /// Connects from the node to a Pod or a Service. The node need not run the Pod.
    ///
    /// # Errors
    /// Returns an error if the node is off, or if nothing listens at the address.
    pub async fn connect(self, address: SocketAddr) -> Result<TcpStream> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // The namespace belongs to a thread, so this one is not used for anything else.
        thread::spawn(move || sender.send(self.dial(address)));
        let stream = receiver.await.context("the thread that connects panicked")??;
        TcpStream::from_std(stream).context("use the connection")
    }

    fn dial(self, address: SocketAddr) -> Result<std::net::TcpStream> {
        enter_network(self.init)?;
        let stream = std::net::TcpStream::connect(address)
            .with_context(|| format!("connect to {address} from a real node"))?;
        stream.set_nonblocking(true).context("prepare the connection")?;
        Ok(stream)
    }
}
