//! Forwards connections from the network of the nodes to a server on the host.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Far more than the clients on 20 nodes need.
const MAX_CONNECTIONS: usize = 4096;
/// Pause after an error of `accept`, for example without file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Forwards every connection to `target`. The listener may belong to another network namespace.
pub(super) async fn serve(listener: TcpListener, target: SocketAddr) -> Result<()> {
    listener.set_nonblocking(true).context("prepare the listener of the API server's forwarder")?;
    let listener = tokio::net::TcpListener::from_std(listener).context("listen for the API server")?;
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await?;
        match listener.accept().await {
            Ok((mut inner, _)) => drop(tokio::spawn(async move {
                if let Ok(mut outer) = TcpStream::connect(target).await {
                    // Both ends see the end of the connection.
                    let _ = copy_bidirectional(&mut inner, &mut outer).await;
                }
                drop(permit);
            })),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
