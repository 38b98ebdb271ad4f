//! A client that sends what it is given, byte for byte.

use std::{io, net::SocketAddr, sync::Arc};

use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore,
    client::WantsClientCert,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::PATIENCE;

pub(super) type Stream = TlsStream<TcpStream>;

/// Returns a configuration that trusts a certificate.
pub(super) fn trusting(certificate: &CertificateDer<'static>) -> Arc<ClientConfig> {
    Arc::new(builder(certificate).with_no_client_auth())
}

/// Returns a configuration that trusts a certificate, and presents one.
pub(super) fn presenting(
    certificate: &CertificateDer<'static>,
    presented: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Arc<ClientConfig> {
    Arc::new(builder(certificate).with_client_auth_cert(vec![presented], key).unwrap())
}

fn builder(certificate: &CertificateDer<'static>) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
}

/// Opens a connection and asks for a protocol.
pub(super) async fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    protocol: &str,
) -> io::Result<Stream> {
    let mut config = (**config).clone();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("proxy.example").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Returns headers with the end of each line.
pub(super) fn lines(headers: &[&str]) -> String {
    headers.iter().flat_map(|line| [line, "\r\n"]).collect()
}

/// Returns a request of HTTP/1.1, such as `GET /path`, after which the connection is closed.
pub(super) fn http1(request: &str, headers: &[&str]) -> Vec<u8> {
    let headers = lines(headers);
    format!("{request} HTTP/1.1\r\nHost: proxy.example\r\nConnection: close\r\n{headers}\r\n").into_bytes()
}

/// Reads until the proxy closes the connection.
pub(super) async fn read_all(stream: &mut Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A connection that breaks has ended too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection does not end");
    bytes
}

/// Reads until the bytes meet a condition.
pub(super) async fn read_until(stream: &mut Stream, is_met: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !is_met(&bytes) {
        let read = timeout(PATIENCE, stream.read_buf(&mut bytes)).await.expect("nothing comes");
        assert_ne!(read.unwrap_or(0), 0, "the connection ended: {}", String::from_utf8_lossy(&bytes));
    }
    bytes
}

/// A response of HTTP/1.1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// Status code. 0 if there was no response.
    pub(super) status: u16,
    /// Headers in lower case.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Response {
    /// Parses everything that came on a connection.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = bytes.get(end + 4..).unwrap_or_default();
        let is_chunked = head.contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_vec() };
        Self { status, head, body }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|bytes| bytes == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 4 + size..];
        if size == 0 {
            break;
        }
    }
    body
}
