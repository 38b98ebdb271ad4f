//! Reserves ports on 127.0.0.1 for servers.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use serde::{Deserialize, Serialize};

/// A port reserved by a bound socket that never listens. A server of the same user that requests
/// port sharing can listen on the port. Other programs find it in use. The reservation lasts across
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
        sockopt::set_socket_reuseport(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let number = SocketAddr::try_from(getsockname(&socket)?)?.port();
        Ok(Self { number, _socket: socket })
    }
}

/// Reserved ports of all servers.
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

    use super::*;

    #[test]
    fn reserved_port_rejects_binds_and_connections() {
        let port = ReservedPort::any().unwrap();
        assert!(TcpListener::bind(("127.0.0.1", port.number)).is_err());
        assert!(TcpStream::connect(("127.0.0.1", port.number)).is_err());
    }

    #[test]
    fn dropping_releases_port() {
        let number = ReservedPort::any().unwrap().number;
        assert!(TcpListener::bind(("127.0.0.1", number)).is_ok());
    }
}
