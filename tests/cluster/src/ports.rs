//! Reserves ports on 127.0.0.1 for servers.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use serde::{Deserialize, Serialize};

/// A port reserved by a bound socket that never listens. Linux gives it to no socket that asks for
/// any port, and to no outgoing connection. Connections to it are refused. A server that sets
/// `SO_REUSEADDR`, as Go, PostgreSQL and Tokio do, can listen on it. The reservation lasts across
/// restarts of the server.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    pub(crate) number: u16,
    _socket: OwnedFd,
}

impl ReservedPort {
    pub(crate) fn any() -> Result<Self> {
        Self::bind().context("reserve a port on 127.0.0.1")
    }

    fn bind() -> Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let number = SocketAddr::try_from(getsockname(&socket)?)?.port();
        Ok(Self { number, _socket: socket })
    }
}

/// Reserves an address on 127.0.0.1 for a server until this process ends. The server can restart on
/// it, if it sets `SO_REUSEADDR`. Until it listens, connections are refused.
///
/// # Errors
/// Returns an error if no port is free, or if this process has too many open files.
pub fn reserve_address() -> Result<SocketAddr> {
    let port = ReservedPort::any()?;
    let address = (Ipv4Addr::LOCALHOST, port.number).into();
    std::mem::forget(port);
    Ok(address)
}

/// Reserved ports of all servers of a cluster.
#[derive(Debug)]
pub(crate) struct ReservedPorts {
    etcd: ReservedPort,
    etcd_peer: ReservedPort,
    api_server: ReservedPort,
    controller_manager: ReservedPort,
    scheduler: ReservedPort,
}

impl ReservedPorts {
    pub(crate) fn any() -> Result<Self> {
        Ok(Self {
            etcd: ReservedPort::any()?,
            etcd_peer: ReservedPort::any()?,
            api_server: ReservedPort::any()?,
            controller_manager: ReservedPort::any()?,
            scheduler: ReservedPort::any()?,
        })
    }

    pub(crate) fn numbers(&self) -> Ports {
        Ports {
            etcd: self.etcd.number,
            etcd_peer: self.etcd_peer.number,
            api_server: self.api_server.number,
            controller_manager: self.controller_manager.number,
            scheduler: self.scheduler.number,
        }
    }
}

/// Ports of a cluster on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// etcd clients (plain HTTP).
    pub etcd: u16,
    /// etcd peers. A cluster has one member.
    pub etcd_peer: u16,
    /// kube-apiserver (HTTPS).
    pub api_server: u16,
    /// Health and metrics of kube-controller-manager (HTTPS).
    pub controller_manager: u16,
    /// Health and metrics of kube-scheduler (HTTPS).
    pub scheduler: u16,
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    /// Waits until connections are refused.
    ///
    /// Each process that another test starts has a copy of all sockets until it executes its program.
    fn wait_until_refused(address: SocketAddr) {
        let began = Instant::now();
        while TcpStream::connect(address).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(30), "connections are not refused");
            std::thread::yield_now();
        }
    }

    #[test]
    fn reserved_address_accepts_one_server_at_a_time() {
        let address = reserve_address().unwrap();
        for _ in 0..2 {
            wait_until_refused(address);
            let server = TcpListener::bind(address).unwrap();
            assert!(TcpListener::bind(address).is_err());
            assert!(TcpStream::connect(address).is_ok());
            drop(server);
        }
    }
}
