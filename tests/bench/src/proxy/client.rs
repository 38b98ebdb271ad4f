//! An HTTP client with connections of its own, so that a measurement has no pool in between. It prefers HTTP/2.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::{http1, http2},
    header::{AUTHORIZATION, HOST},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{net::TcpStream, sync::Mutex};
use tokio_rustls::TlsConnector;

/// A server, and the token of a user.
#[derive(Clone)]
pub(super) struct Target {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    token: String,
}

/// A connection.
pub(super) struct Connection {
    sender: Sender,
    target: Target,
}

enum Sender {
    Http1(Mutex<http1::SendRequest<Empty<Bytes>>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Target {
    /// Returns a server with a certificate that `authority` (PEM) signed.
    pub(super) fn new(address: SocketAddr, authority: &str, token: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(certificate.context("read a certificate authority")?)?;
        }
        let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { address, tls: Arc::new(tls), token: token.to_owned() })
    }

    /// Opens a connection.
    pub(super) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await.context("connect to the server")?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await.context("start TLS")?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = TokioIo::new(stream);
        // A connection ends with its sender.
        let sender = if is_http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
            tokio::spawn(connection);
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(stream).await?;
            tokio::spawn(connection);
            Sender::Http1(Mutex::new(sender))
        };
        Ok(Connection { sender, target: self.clone() })
    }
}

impl Connection {
    /// Sends a GET, and returns the response when its head has come.
    pub(super) async fn open(&self, path: &str) -> Result<Response<Incoming>> {
        let address = self.target.address;
        let token = format!("Bearer {}", self.target.token);
        let response = match &self.sender {
            Sender::Http1(sender) => {
                let request =
                    Request::get(path).header(HOST, address.to_string()).header(AUTHORIZATION, token);
                let mut sender = sender.lock().await;
                sender.ready().await?;
                sender.send_request(request.body(Empty::new())?).await?
            }
            Sender::Http2(sender) => {
                let request = Request::get(format!("https://{address}{path}")).header(AUTHORIZATION, token);
                let mut sender = sender.clone();
                sender.ready().await?;
                sender.send_request(request.body(Empty::new())?).await?
            }
        };
        ensure!(response.status() == 200, "GET {path}: {}", response.status());
        Ok(response)
    }

    /// Sends a GET, and returns the length of its response.
    pub(super) async fn get(&self, path: &str) -> Result<usize> {
        let mut body = self.open(path).await?.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(length)
    }
}
