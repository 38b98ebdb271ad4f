//! The address of the API server, and connections to it.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use http::uri::{Authority, Scheme};
use kube::Config;
use operator_runtime::{https::roots, reload::FileReloader};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::UpstreamError;

/// Timeout of a new connection, with its TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The API server.
pub struct Endpoint {
    authority: Authority,
    /// Host and port.
    address: (String, u16),
    name: ServerName<'static>,
    tls: Tls,
}

/// Configuration of TLS, from a file that can be replaced or from a kubeconfig.
enum Tls {
    File(FileReloader<ClientConfig>),
    Fixed(Arc<ClientConfig>),
}

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    fn alpn(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http1 => vec![b"http/1.1".to_vec()],
            Self::Http2 => vec![b"h2".to_vec()],
        }
    }
}

impl Endpoint {
    /// Returns the API server of a configuration. Sends nothing.
    ///
    /// # Errors
    /// Returns an error if the address is not one with `https` and without a path, if its certificate would
    /// not be verified, or if the authorities cannot be read.
    pub fn of(config: &Config) -> Result<Self> {
        let url = &config.cluster_url;
        ensure!(url.scheme() == Some(&Scheme::HTTPS), "the API server {url} must have an address with https");
        ensure!(matches!(url.path(), "" | "/"), "the address of the API server {url} must have no path");
        ensure!(!config.accept_invalid_certs, "the certificate of the API server {url} must be verified");
        ensure!(config.proxy_url.is_none(), "the API server {url} must be reached without a proxy");
        let authority = url.authority().with_context(|| format!("the address {url} has no host"))?.clone();
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = config.tls_server_name.as_ref().unwrap_or(&host).clone();
        let name = ServerName::try_from(name.clone())
            .with_context(|| format!("{name} is not a name that a certificate can have"))?;
        let tls = match (&config.root_cert_file, &config.root_cert) {
            (Some(file), _) => {
                let path = file.clone();
                let parse = move |contents: &[Vec<u8>]| client(from_pem(&contents.concat(), &path)?);
                Tls::File(FileReloader::new(AUTHORITIES, vec![file.clone()], parse)?)
            }
            (None, Some(certificates)) => Tls::Fixed(Arc::new(client(from_der(certificates)?)?)),
            (None, None) => bail!("the configuration of the API server {url} has no certificate authority"),
        };
        let port = authority.port_u16().unwrap_or(443);
        Ok(Self { authority, address: (host, port), name, tls })
    }

    /// Returns host and port.
    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Opens a connection.
    pub(super) async fn connect(&self, protocol: Protocol) -> Result<TlsStream<TcpStream>, UpstreamError> {
        let connected = timeout(CONNECT_TIMEOUT, self.handshake(protocol)).await;
        let connected = connected.map_err(|_| format!("no response within {} s", CONNECT_TIMEOUT.as_secs()));
        connected.and_then(|result| result.map_err(|error| error.to_string())).map_err(UpstreamError::Connect)
    }

    async fn handshake(&self, protocol: Protocol) -> std::io::Result<TlsStream<TcpStream>> {
        let (host, port) = &self.address;
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        let tls = match &self.tls {
            Tls::File(reloaded) => reloaded.current(),
            Tls::Fixed(config) => config.clone(),
        };
        let mut tls = (*tls).clone();
        tls.alpn_protocols = protocol.alpn();
        TlsConnector::from(Arc::new(tls)).connect(self.name.clone(), stream).await
    }
}

/// What the file is called in messages.
const AUTHORITIES: &str = "the certificate authority of the API server";

fn from_pem(pem: &[u8], path: &Path) -> Result<RootCertStore> {
    roots(pem, AUTHORITIES, path)
}

fn from_der(certificates: &[Vec<u8>]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots
            .add(CertificateDer::from(certificate.clone()))
            .context("cannot use a certificate authority of the kubeconfig")?;
    }
    Ok(roots)
}

/// Returns a configuration without a client certificate.
fn client(roots: RootCertStore) -> Result<ClientConfig> {
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("cannot configure TLS: no protocol version is available")?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::new("https://127.0.0.1:6443".parse().unwrap());
        let authority = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap().cert;
        config.root_cert = Some(vec![authority.der().to_vec()]);
        change(&mut config);
        Endpoint::of(&config).err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn configuration_that_is_not_safe_is_refused() {
        assert_eq!(error(|_| {}), "");
        assert!(error(|config| config.cluster_url = "http://a".parse().unwrap()).contains("with https"));
        assert!(error(|config| config.cluster_url = "https://a/b".parse().unwrap()).contains("no path"));
        assert!(error(|config| config.accept_invalid_certs = true).contains("must be verified"));
        assert!(error(|config| config.root_cert = None).contains("no certificate authority"));
        assert!(error(|config| config.root_cert_file = Some("/nowhere".into())).contains("/nowhere"));
    }
}
