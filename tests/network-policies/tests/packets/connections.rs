//! Servers and clients in network namespaces.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::network::NetworkNamespace;

/// How long a client waits before it takes the connection for dropped.
const TIMEOUT: Duration = Duration::from_millis(400);

/// How often a server looks whether it must stop.
const INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// A server that returns what it receives, until it is dropped.
pub(crate) struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server in a network namespace.
    pub(crate) fn start(namespace: &NetworkNamespace, protocol: Protocol, port: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let address = (Ipv4Addr::UNSPECIFIED, port);
        let stopped = stop.clone();
        // A socket stays in the network namespace that it was created in.
        let thread = match protocol {
            Protocol::Tcp => {
                let listener = namespace.run(|| TcpListener::bind(address)).unwrap();
                thread::spawn(move || serve_tcp(&listener, &stopped))
            }
            Protocol::Udp => {
                let socket = namespace.run(|| UdpSocket::bind(address)).unwrap();
                thread::spawn(move || serve_udp(&socket, &stopped))
            }
        };
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A server that panicked has failed its clients, too.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve_tcp(listener: &TcpListener, stop: &Arc<AtomicBool>) {
    listener.set_nonblocking(true).unwrap();
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                // The thread ends with its client.
                thread::spawn(move || echo(stream));
            }
            Err(_) => thread::sleep(INTERVAL),
        }
    }
}

fn echo(mut stream: TcpStream) -> io::Result<u64> {
    stream.set_nonblocking(false)?;
    io::copy(&mut stream.try_clone()?, &mut stream)
}

fn serve_udp(socket: &UdpSocket, stop: &Arc<AtomicBool>) {
    socket.set_read_timeout(Some(INTERVAL)).unwrap();
    let mut buffer = [0; 16];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, client)) = socket.recv_from(&mut buffer) {
            // The client notices the loss.
            let _ = socket.send_to(&buffer[..length], client);
        }
    }
}

/// Returns whether a server answers a client in a network namespace.
pub(crate) fn connects(namespace: &NetworkNamespace, to: &str, protocol: Protocol, port: u16) -> bool {
    match protocol {
        Protocol::Tcp => open(namespace, to, port).is_ok_and(|mut stream| echoes(&mut stream)),
        Protocol::Udp => namespace.run(|| exchange(to, port)).is_ok(),
    }
}

/// Opens a TCP connection from a network namespace.
pub(crate) fn open(namespace: &NetworkNamespace, to: &str, port: u16) -> io::Result<TcpStream> {
    let address = SocketAddr::new(IpAddr::V4(to.parse().unwrap()), port);
    namespace.run(|| TcpStream::connect_timeout(&address, TIMEOUT))
}

/// Returns whether the other side of a connection returns what it receives.
pub(crate) fn echoes(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4];
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"ping").and_then(|()| stream.read_exact(&mut buffer)).is_ok_and(|()| &buffer == b"ping")
}

fn exchange(to: &str, port: u16) -> io::Result<usize> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.send_to(b"ping", (to, port))?;
    socket.recv(&mut [0; 16])
}
