//! What an instance tells others, and the one request that it takes from them: to seal.
//!
//! | address | request | client | answer |
//! |---|---|---|---|
//! | status | `GET /status` | operator, member | the report |
//! | status | `GET /status?after=N&wait=25` | operator, member | the report, as soon as its sequence is another than `N`, or after 25 s |
//! | status | `POST /seal`, `{"epoch": 7}` | operator | the report, as soon as the member is sealed at epoch 7 or a later one |
//! | probes | `GET /livez` | kubelet | whether the main loop and the fence thread tick |
//! | probes | `GET /readyz` | kubelet | whether the instance can serve |
//!
//! The status address speaks HTTPS. A client needs a certificate of the cluster's authority, and its
//! common name says who it is. The probe address speaks HTTP. Nothing here calls the API server or
//! PostgreSQL.
//!
//! # Guarantees
//! - The number of connections, their age, and all sizes and times of a request are bounded. See
//!   [`Limits`].
//! - A full server closes connections of clients without a certificate first, and those of the
//!   operator last.
//! - An epoch that was requested is never replaced by a lower one.
//! - Certificates that change on disk are used for the next connection. Files that cannot be used
//!   change nothing.

mod activity;
mod certificates;
mod client;
mod connections;
mod handle;
mod health;
mod limits;
mod probes;
mod response;
mod route;
mod server;
mod status;

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use certificates::CertificateFiles;
use probes::Probes;
use server::{Server, run};
use status::Status;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::{
    certificates::CertificateError,
    handle::{BackupRequest, StatusHandle},
    health::Health,
    limits::Limits,
};
pub(crate) use self::{
    client::Client,
    response::{Response, document, method_not_allowed, text},
    server::{Handler, serve_http},
};

/// Addresses, certificates, and limits of the status API.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the status API.
    pub status: SocketAddr,
    /// Address of the probes.
    pub probes: SocketAddr,
    /// Folder with `ca.crt`, `tls.crt`, and `tls.key`, as a mounted Secret has them.
    pub certificates: PathBuf,
    /// Limits for clients.
    pub limits: Limits,
}

/// Reason why the status API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is in use, or does not belong to this Pod.
    #[error(
        "cannot listen on {address} for the {purpose}: {cause}; check that no other process of the Pod listens \
         there, and that the address belongs to the Pod"
    )]
    Listen {
        /// What is served there.
        purpose: &'static str,
        /// Address.
        address: SocketAddr,
        /// Answer of the operating system.
        cause: io::Error,
    },
    /// The certificates cannot be used.
    #[error("cannot serve the status API on {address}: {cause}")]
    Certificates {
        /// Address of the status API.
        address: SocketAddr,
        /// What is wrong with the certificates.
        cause: CertificateError,
    },
}

/// Status API and probes that listen, and are not served yet.
#[derive(Debug)]
pub struct StatusApi {
    status: TcpListener,
    probes: TcpListener,
    addresses: Addresses,
    certificates: CertificateFiles,
    limits: Limits,
    handle: StatusHandle,
    health: Arc<Health>,
}

/// Addresses on which a [`StatusApi`] listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Address of the status API.
    pub status: SocketAddr,
    /// Address of the probes.
    pub probes: SocketAddr,
}

impl StatusApi {
    /// Reads the certificates and listens on both addresses.
    ///
    /// # Errors
    /// Returns an error if an address is in use or does not belong to this Pod, or if the
    /// certificates cannot be used.
    pub async fn bind(config: Config, handle: StatusHandle, health: Arc<Health>) -> Result<Self, BindError> {
        let (probes, probe_address) = listen(config.probes, "probes").await?;
        let (status, status_address) = listen(config.status, "status API").await?;
        let certificates = CertificateFiles::read(config.certificates, config.limits.certificate_refresh)
            .map_err(|cause| BindError::Certificates { address: status_address, cause })?;
        let addresses = Addresses { status: status_address, probes: probe_address };
        Ok(Self { status, probes, addresses, certificates, limits: config.limits, handle, health })
    }

    /// Returns the addresses with their actual ports, if port 0 was requested.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Serves until `stop`. Then long polls are answered with the last report, and requests to seal
    /// with an error. Returns after all connections are closed, which takes at most a second.
    pub async fn serve(self, stop: CancellationToken) {
        let status = Server {
            handler: Status { handle: self.handle, limits: self.limits, stop: stop.clone() },
            certificates: Some(self.certificates),
            limits: self.limits,
            stop: stop.clone(),
        };
        let probes = Probes { health: self.health };
        let limits = probes::limits(self.limits);
        tokio::join!(run(self.status, status), serve_http(self.probes, probes, limits, stop));
    }
}

pub(crate) async fn listen(
    address: SocketAddr,
    purpose: &'static str,
) -> Result<(TcpListener, SocketAddr), BindError> {
    let error = |cause| BindError::Listen { purpose, address, cause };
    let listener = TcpListener::bind(address).await.map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    Ok((listener, address))
}
