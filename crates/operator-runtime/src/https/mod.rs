//! HTTPS servers that share one certificate, which can be replaced while they run.

mod client_ca;

use std::{fmt, net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use axum::Router;
pub use client_ca::{ClientCa, roots};
use parking_lot::RwLock;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::server::{self, Limits};

/// Serving certificate of the HTTPS servers of a process. Cheap to clone; all clones share it.
///
/// The certificate can be replaced at any time. Open connections stay; new connections use the new
/// certificate.
#[derive(Clone, Default)]
pub struct Identity {
    current: Arc<RwLock<Option<Arc<CertifiedKey>>>>,
}

impl Identity {
    /// Replaces the certificate chain, which starts with the serving certificate, and its key.
    ///
    /// # Errors
    /// Returns an error and keeps the current certificate if the input is not PEM or the key does
    /// not match the certificate.
    pub fn set(&self, chain_pem: &[u8], key_pem: &[u8]) -> Result<()> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain_pem)
            .collect::<Result<_, _>>()
            .context("cannot read the serving certificate: not PEM")?;
        let key = PrivateKeyDer::from_pem_slice(key_pem)
            .context("cannot read the key of the serving certificate: not PEM")?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .context("cannot use the serving certificate with its key")?;
        *self.current.write() = Some(Arc::new(certified));
        Ok(())
    }

    /// Returns whether there is a certificate. Without one, TLS handshakes fail.
    pub fn is_present(&self) -> bool {
        self.current.read().is_some()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("is_present", &self.is_present()).finish()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.read().clone()
    }
}

/// Running server.
#[derive(Debug)]
pub struct Server {
    /// Address with the actual port, if port 0 was requested.
    pub address: SocketAddr,
    /// Completes when the server has stopped.
    pub task: JoinHandle<()>,
}

/// Serves HTTP/1.1 and HTTP/2 over TLS until `stop`, then finishes the requests in progress. Keeps
/// at most `limit` connections open.
///
/// # Errors
/// Returns an error if the address is in use or does not belong to this machine.
pub async fn serve(
    address: SocketAddr,
    router: Router,
    identity: Identity,
    limit: usize,
    stop: CancellationToken,
) -> Result<Server> {
    let config = Arc::new(tls(&identity, None)?);
    listen(address, router, Arc::new(move || config.clone()), limit, stop).await
}

/// Serves like [`serve`] and requests a client certificate. A certificate that no authority in
/// `clients` signed fails the handshake. Clients without a certificate are served; see
/// [`ClientCertificate`](server::ClientCertificate).
///
/// # Errors
/// Returns an error if the address is in use or does not belong to this machine, or the authorities
/// cannot be read.
pub(crate) async fn serve_with_client_ca(
    address: SocketAddr,
    router: Router,
    identity: Identity,
    clients: ClientCa,
    limit: usize,
    stop: CancellationToken,
) -> Result<Server> {
    let config = clients.config(identity)?;
    listen(address, router, Arc::new(move || config.current()), limit, stop).await
}

async fn listen(
    address: SocketAddr,
    router: Router,
    config: Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>,
    limit: usize,
    stop: CancellationToken,
) -> Result<Server> {
    let (listener, address) = server::bind(address).await?;
    Ok(Server {
        address,
        task: server::spawn(
            listener,
            Some(config),
            server::router_handler(router),
            Limits::short(limit),
            stop,
        ),
    })
}

/// Returns the TLS configuration of servers with this certificate: TLS 1.2 or later, with HTTP/2 and
/// HTTP/1.1. With `clients`, client certificates are requested, and those that are sent are verified.
///
/// # Errors
/// Returns an error if the authorities cannot be used.
pub fn tls(identity: &Identity, clients: Option<RootCertStore>) -> Result<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .context("cannot configure TLS: no protocol version is available")?;
    let builder = match clients {
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.context("cannot use the client CA")?)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(identity.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Without session resumption, every connection is verified and no client state is stored.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Duration};

    use axum::routing::get;
    use futures::future::join_all;
    use rcgen::{CertifiedKey as Generated, generate_simple_self_signed};
    use rustls::{ClientConfig, pki_types::ServerName};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        time::timeout,
    };
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::*;

    /// Timeout for the server to close a surplus connection.
    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Sets a new self-signed certificate and returns it.
    fn set_new_certificate(identity: &Identity) -> CertificateDer<'static> {
        let Generated { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        identity.set(cert.pem().as_bytes(), signing_key.serialize_pem().as_bytes()).unwrap();
        cert.der().clone()
    }

    /// Returns the response to a client that trusts this certificate only.
    async fn get_root(address: SocketAddr, trusted: &CertificateDer<'static>) -> std::io::Result<String> {
        get_root_with(address, client(trusted, None)).await
    }

    #[tokio::test]
    async fn uses_replaced_certificate_for_new_connections() {
        let (identity, stop) = (Identity::default(), CancellationToken::new());
        let router = Router::new().route("/", get(async || "here"));
        let server =
            serve(([127, 0, 0, 1], 0).into(), router, identity.clone(), 16, stop.clone()).await.unwrap();
        let untrusted = set_new_certificate(&Identity::default());
        assert!(
            get_root(server.address, &untrusted).await.is_err(),
            "the handshake must fail without a certificate"
        );

        let first = set_new_certificate(&identity);
        assert!(get_root(server.address, &first).await.unwrap().ends_with("here"));
        let second = set_new_certificate(&identity);
        assert!(get_root(server.address, &first).await.is_err());
        assert!(get_root(server.address, &second).await.unwrap().ends_with("here"));

        stop.cancel();
        server.task.await.unwrap();
        assert!(get_root(server.address, &second).await.is_err());
    }

    #[test]
    fn keeps_certificate_if_replacement_is_invalid() {
        let identity = Identity::default();
        set_new_certificate(&identity);
        let other = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let another = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (chain, key) = (other.cert.pem(), another.signing_key.serialize_pem());
        for (chain, key) in [("", key.as_str()), (chain.as_str(), ""), (&chain, &key), ("invalid", "invalid")]
        {
            assert!(identity.set(chain.as_bytes(), key.as_bytes()).is_err());
        }
        assert!(identity.is_present());
    }

    #[tokio::test]
    async fn error_names_address_in_use() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let error = serve(address, Router::new(), Identity::default(), 16, CancellationToken::new())
            .await
            .unwrap_err();
        assert!(format!("{error:#}").contains(&address.to_string()), "{error:#}");
    }

    struct Authority {
        pem: String,
        issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    }

    fn authority() -> Authority {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: rcgen::Issuer::new(params, key) }
    }

    /// Returns a client configuration with a certificate that `authority` signs, or without one.
    fn client(server: &CertificateDer<'static>, authority: Option<&Authority>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(server.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let Some(authority) = authority else { return builder.with_no_client_auth() };
        let mut params = rcgen::CertificateParams::default();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority.issuer).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
    }

    async fn connect(address: SocketAddr, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn get_root_with(address: SocketAddr, config: ClientConfig) -> std::io::Result<String> {
        let mut stream = connect(address, config).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        Ok(response)
    }

    #[tokio::test]
    async fn serves_clients_while_thousands_idle_after_handshake() {
        const COUNT: usize = 5000;
        const BATCH: usize = 50;
        const LIMIT: usize = 64;
        let (identity, stop) = (Identity::default(), CancellationToken::new());
        let certificate = set_new_certificate(&identity);
        let router = Router::new().route("/", get(async || "here"));
        let server = serve(([127, 0, 0, 1], 0).into(), router, identity, LIMIT, stop).await.unwrap();
        let config = client(&certificate, None);
        let mut open = Vec::new();
        for _ in 0..COUNT / BATCH {
            let more = (0..BATCH).map(|_| connect(server.address, config.clone()));
            open.extend(join_all(more).await.into_iter().map(Result::unwrap));
            assert!(get_root(server.address, &certificate).await.unwrap().ends_with("here"));
            let surplus = open.len().saturating_sub(LIMIT);
            let closed = open.drain(..surplus).map(async |mut stream| {
                let mut rest = Vec::new();
                timeout(TIMEOUT, stream.read_to_end(&mut rest)).await.is_ok()
            });
            assert!(join_all(closed).await.into_iter().all(|is_closed| is_closed));
        }
    }

    #[tokio::test]
    async fn request_extension_shows_client_certificate() {
        let (identity, stop) = (Identity::default(), CancellationToken::new());
        let certificate = set_new_certificate(&identity);
        let (ours, foreign) = (authority(), authority());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &ours.pem).unwrap();
        let handler =
            get(async |client: axum::Extension<server::ClientCertificate>| client.0.0.is_some().to_string());
        let router = Router::new().route("/", handler);
        let address = ([127, 0, 0, 1], 0).into();
        let server = serve_with_client_ca(address, router, identity, ClientCa::new(file.path()), 16, stop)
            .await
            .unwrap();
        let get_root = async |authority| get_root_with(server.address, client(&certificate, authority)).await;
        assert!(get_root(Some(&ours)).await.unwrap().ends_with("true"));
        assert!(get_root(None).await.unwrap().ends_with("false"));
        let rejected = get_root(Some(&foreign)).await;
        assert!(rejected.as_ref().is_err() || rejected.as_ref().is_ok_and(String::is_empty), "{rejected:?}");
    }

    #[tokio::test]
    async fn error_names_file_of_invalid_client_ca() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let serve = async |path: &std::path::Path| {
            let (address, stop) = (([127, 0, 0, 1], 0).into(), CancellationToken::new());
            let clients = ClientCa::new(path);
            let server =
                serve_with_client_ca(address, Router::new(), Identity::default(), clients, 16, stop).await;
            format!("{:#}", server.unwrap_err())
        };
        let error = serve(file.path()).await;
        assert!(
            error.contains("contains no certificate") && error.contains(file.path().to_str().unwrap()),
            "{error}"
        );
        let error = serve(std::path::Path::new("/nowhere/ca.crt")).await;
        assert!(error.contains("cannot read the client CA /nowhere/ca.crt"), "{error}");
    }
}
