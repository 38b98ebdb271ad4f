//! Forwards connections from the network of the nodes to a server on the host.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Far more than the clients on 20 nodes need.
const MAX_CONNECTIONS: usize = 4096;
/// Pause after an error of `accept`, for example without file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Forwards every connection to `target`. The listener may belong to another network namespace.
pub(super) async fn serve(listener: TcpListener, target: SocketAddr) {
    let listener = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return eprintln!("cannot forward connections to the API server: {error}"),
    };
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
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
