//! Ports on 127.0.0.1 that nobody else can take before the server that they are for.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use serde::{Deserialize, Serialize};

/// A port held by a socket that is bound and never listens. A server of the same user that also asks for port sharing can listen on it;
/// everybody else finds it in use. So a port also outlives the restart of its server.
#[derive(Debug)]
pub(crate) struct HeldPort {
    pub(crate) number: u16,
    _socket: OwnedFd,
}

impl HeldPort {
    pub(crate) fn any() -> Result<Self> {
        Self::bind().context("reserve a port on 127.0.0.1")
    }

    fn bind() -> Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let number = SocketAddr::try_from(getsockname(&socket)?)?.port();
        Ok(Self { number, _socket: socket })
    }
}

/// One port per server.
#[derive(Debug)]
pub(crate) struct HeldPorts {
    etcd: HeldPort,
    etcd_peer: HeldPort,
    api_server: HeldPort,
    controller_manager: HeldPort,
    scheduler: HeldPort,
}

impl HeldPorts {
    pub(crate) fn any() -> Result<Self> {
        Ok(Self {
            etcd: HeldPort::any()?,
            etcd_peer: HeldPort::any()?,
            api_server: HeldPort::any()?,
            controller_manager: HeldPort::any()?,
            scheduler: HeldPort::any()?,
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

/// The ports of a cluster, all on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// Clients of etcd (plain HTTP).
    pub etcd: u16,
    /// Peers of etcd; there are none.
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

    use super::*;

    #[test]
    fn a_held_port_is_refused_to_strangers_and_answers_nobody() {
        let port = HeldPort::any().unwrap();
        assert!(TcpListener::bind(("127.0.0.1", port.number)).is_err());
        assert!(TcpStream::connect(("127.0.0.1", port.number)).is_err());
    }

    #[test]
    fn a_dropped_port_is_free_again() {
        let number = HeldPort::any().unwrap().number;
        assert!(TcpListener::bind(("127.0.0.1", number)).is_ok());
    }
}
