//! A TCP proxy between a member and the API server, which can be cut.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A proxy of one member.
pub struct ApiProxy {
    address: SocketAddr,
    is_cut: Arc<watch::Sender<bool>>,
}

impl ApiProxy {
    /// Starts a proxy to a server.
    pub(crate) async fn start(server: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen for a proxy")?;
        let address = listener.local_addr()?;
        let is_cut = Arc::new(watch::Sender::new(false));
        let state = is_cut.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, server.clone(), state.subscribe()));
            }
        });
        Ok(Self { address, is_cut })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets no byte through any more, in either direction.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets new connections through again.
    pub fn heal(&self) {
        self.is_cut.send_replace(false);
    }
}

async fn connect(mut client: TcpStream, server: String, mut is_cut: watch::Receiver<bool>) {
    let cut = async {
        // Fails only when the test ends.
        let _ = is_cut.wait_for(|is_cut| *is_cut).await;
    };
    let copy = async {
        let mut server = TcpStream::connect(server).await?;
        copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        () = cut => {}
        _ = copy => return,
    }
    // The connection stays open, and nobody answers, as if packets were dropped.
    let _ = is_cut.wait_for(|is_cut| !*is_cut).await;
}
