//! A network connection to the API server that a test can interrupt.

use std::{path::PathBuf, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::{Account, TestEnv};

/// Forwards bytes to the API server until the network is cut. Then it drops all bytes without
/// closing connections.
pub(crate) struct Forwarder {
    port: u16,
    open: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Forwarder {
    pub(crate) async fn new(env: &TestEnv) -> Self {
        let target = env.cluster.record().ports.api_server;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = watch::Sender::new(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, target, open.subscribe()));
        Self { port, open, _tasks: tasks }
    }

    /// Returns the address, with a port.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the account with a kubeconfig that connects through the forwarder.
    pub(crate) fn lead(&self, env: &TestEnv, account: &Account) -> Account {
        let direct = format!("https://127.0.0.1:{}", env.cluster.record().ports.api_server);
        let kubeconfig = std::fs::read_to_string(account.kubeconfig()).unwrap();
        assert!(kubeconfig.contains(&direct));
        let path: PathBuf = account.kubeconfig().with_extension("forwarded");
        let text = kubeconfig.replace(&direct, &format!("https://{}", self.address()));
        std::fs::write(&path, text).unwrap();
        account.with(path)
    }

    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Forwards new connections again. Bytes dropped in the meantime stay lost.
    pub(crate) fn restore(&self) {
        self.open.send_replace(true);
    }
}

async fn accept(listener: TcpListener, target: u16, open: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let (near, _) = listener.accept().await.unwrap();
        connections.spawn(connect(near, target, open.clone()));
    }
}

async fn connect(near: TcpStream, target: u16, mut open: watch::Receiver<bool>) {
    if open.wait_for(|open| *open).await.is_err() {
        return;
    }
    let Ok(far) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let is_open = Arc::new(open);
    tokio::join!(
        pass(&mut near_in, &mut far_out, is_open.clone()),
        pass(&mut far_in, &mut near_out, is_open)
    );
}

/// Forwards bytes until one side closes. A connection on which bytes were dropped is dead.
async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    open: Arc<watch::Receiver<bool>>,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if !*open.borrow() {
            let _ = open.as_ref().clone().wait_for(|open| *open).await;
            break;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
