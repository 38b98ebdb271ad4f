//! A TCP proxy between a member and the API server, with the faults of a network.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    time::sleep,
};

/// Bytes of the API server with which a connection begins: its certificate, and not much more.
const HANDSHAKE: usize = 3 << 10;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Works,
    /// No byte gets through, in either direction.
    Cut,
    /// Requests get through, and the connection breaks before the response.
    LosesResponses,
    /// Responses take this time longer.
    Slow(Duration),
}

/// A proxy of one member.
pub struct ApiProxy {
    address: SocketAddr,
    network: Arc<watch::Sender<Network>>,
}

impl ApiProxy {
    /// Starts a proxy to a server.
    pub(crate) async fn start(server: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen for a proxy")?;
        let address = listener.local_addr()?;
        let network = Arc::new(watch::Sender::new(Network::Works));
        let state = network.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, server.clone(), state.subscribe()));
            }
        });
        Ok(Self { address, network })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets no byte through any more, in either direction.
    pub fn cut(&self) {
        self.network.send_replace(Network::Cut);
    }

    /// Lets requests through, and breaks each connection before the response. A new connection can break
    /// earlier.
    pub fn lose_responses(&self) {
        self.network.send_replace(Network::LosesResponses);
    }

    /// Delays all responses.
    pub fn slow_down(&self, delay: Duration) {
        self.network.send_replace(Network::Slow(delay));
    }

    /// Lets new connections through again.
    pub fn heal(&self) {
        self.network.send_replace(Network::Works);
    }
}

async fn connect(mut client: TcpStream, server: String, mut network: watch::Receiver<Network>) {
    let mut changes = network.clone();
    let cut = async {
        // Fails only when the test ends.
        let _ = changes.wait_for(|network| *network == Network::Cut).await;
    };
    tokio::select! {
        () = cut => {}
        _ = copy(&mut client, &server, &network) => return,
    }
    // The connection stays open, and nobody answers, as if packets were dropped.
    let _ = network.wait_for(|network| *network != Network::Cut).await;
}

/// Copies until either side ends the connection, or the network breaks it.
async fn copy(client: &mut TcpStream, server: &str, network: &watch::Receiver<Network>) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    let (mut requests, mut responses) = client.split();
    let (mut from_server, mut to_server) = server.split();
    tokio::select! {
        sent = tokio::io::copy(&mut requests, &mut to_server) => sent.map(drop),
        responded = respond(&mut from_server, &mut responses, network) => responded,
    }
}

/// Copies responses, as the network lets them through.
async fn respond(
    server: &mut ReadHalf<'_>,
    client: &mut WriteHalf<'_>,
    network: &watch::Receiver<Network>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let mut copied = 0;
    loop {
        let count = server.read(&mut buffer).await?;
        let now = *network.borrow();
        match now {
            Network::LosesResponses if copied >= HANDSHAKE => return Ok(()),
            Network::Slow(delay) => sleep(delay).await,
            _ => {}
        }
        let Some(piece) = buffer.get(..count).filter(|piece| !piece.is_empty()) else { return Ok(()) };
        client.write_all(piece).await?;
        copied += count;
    }
}
