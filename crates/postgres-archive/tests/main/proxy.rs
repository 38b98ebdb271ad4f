//! A TCP proxy that breaks connections.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

/// What happens to answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They pass.
    None,
    /// So many connections are cut when the first byte of an answer arrives.
    Lose(u32),
    /// So many connections are cut in the middle of an answer, after a number of bytes.
    Cut(u32, usize),
    /// Requests pass, and answers never arrive.
    Hang,
}

/// A proxy for a server. It stops when it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    fault: Arc<Mutex<Fault>>,
    task: AbortHandle,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, fault) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Fault::None)));
        let shared = fault.clone();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(forward(client, server, shared.clone()));
            }
        });
        Self { address, fault, task: task.abort_handle() }
    }

    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// Returns what is left of the fault.
    pub(crate) fn fault(&self) -> Fault {
        *self.fault.lock().unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns how many bytes of an answer may pass now. `None`: all of them.
fn limit(fault: &Mutex<Fault>) -> Option<usize> {
    let mut fault = fault.lock().unwrap();
    match *fault {
        Fault::Lose(count) if count > 0 => {
            *fault = Fault::Lose(count - 1);
            Some(0)
        }
        Fault::Cut(count, bytes) if count > 0 => {
            *fault = Fault::Cut(count - 1, bytes);
            Some(bytes)
        }
        _ => None,
    }
}

/// Forwards a connection until one side closes it, or a fault does.
async fn forward(client: TcpStream, server: SocketAddr, fault: Arc<Mutex<Fault>>) {
    let server = TcpStream::connect(server).await.unwrap();
    let (mut requests, mut client) = client.into_split();
    let (mut answers, mut server) = server.into_split();
    let upload = tokio::spawn(async move { tokio::io::copy(&mut requests, &mut server).await });
    let mut chunk = vec![0; 16 << 10];
    let mut left: Option<usize> = None;
    while let Ok(bytes @ 1..) = answers.read(&mut chunk).await {
        if *fault.lock().unwrap() == Fault::Hang {
            std::future::pending::<()>().await;
        }
        left = left.or_else(|| limit(&fault));
        let passed = left.map_or(bytes, |left| left.min(bytes));
        if client.write_all(&chunk[..passed]).await.is_err() {
            break;
        }
        left = left.map(|left| left - passed);
        if left == Some(0) {
            break;
        }
    }
    upload.abort();
}
