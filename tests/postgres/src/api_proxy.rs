//! A TCP proxy between a member and the API server, with the faults of a network.
//!
//! Proxies have a thread of their own. A test that waits for a program of PostgreSQL would otherwise cut its members
//! off, and the primary would lose its Lease.

use std::{
    io,
    net::{self, SocketAddr},
    sync::{Arc, LazyLock},
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    runtime::{Builder, Runtime},
    sync::watch,
    time::sleep,
};
use tokio_util::task::AbortOnDropHandle;

static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(1).thread_name("api-proxy").enable_all().build()
});

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
    _accepts: AbortOnDropHandle<()>,
}

impl ApiProxy {
    /// Starts a proxy to a server.
    pub(crate) fn start(server: String) -> Result<Self> {
        let runtime = RUNTIME.as_ref().context("cannot start the thread of proxies")?;
        let _entered = runtime.enter();
        let listener = net::TcpListener::bind("127.0.0.1:0").context("cannot listen for a proxy")?;
        listener.set_nonblocking(true)?;
        let (address, listener) = (listener.local_addr()?, TcpListener::from_std(listener)?);
        let network = Arc::new(watch::Sender::new(Network::Works));
        let state = network.clone();
        let accepts = runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, server.clone(), state.subscribe()));
            }
        });
        Ok(Self { address, network, _accepts: AbortOnDropHandle::new(accepts) })
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
        // Fails only when the proxy is gone.
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
