//! Forwards connections between the network of the nodes and the host.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::sync::Semaphore;

/// Far more than the clients on 20 nodes need.
const MAX_CONNECTIONS: usize = 4096;
/// Pause after an error of `accept`, for example without file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Forwards every connection to what `connect` opens. The listener may belong to another network namespace.
pub(super) async fn serve<S, F>(
    listener: TcpListener,
    connect: impl Fn() -> F + Clone + Send + 'static,
) -> Result<()>
where
    F: Future<Output = std::io::Result<S>> + Send,
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    listener.set_nonblocking(true).context("prepare the listener of a forwarder")?;
    let listener = tokio::net::TcpListener::from_std(listener).context("listen for a forwarder")?;
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await?;
        match listener.accept().await {
            Ok((mut client, _)) => {
                let connect = connect.clone();
                drop(tokio::spawn(async move {
                    if let Ok(mut server) = connect().await {
                        // Both ends see the end of the connection.
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                    drop(permit);
                }));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
