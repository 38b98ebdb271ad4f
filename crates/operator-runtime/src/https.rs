//! HTTPS servers that share one certificate, which may be changed while they run.

mod client_ca;

use std::{fmt, net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use axum::Router;
pub use client_ca::ClientCa;
use client_ca::Configs;
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

use crate::server;

/// The certificate that the process's servers show. Cheap to clone; all clones are one.
///
/// What is shown may be changed at any time: connections that are open stay, new ones see the new certificate.
#[derive(Clone, Default)]
pub struct Identity {
    shown: Arc<RwLock<Option<Arc<CertifiedKey>>>>,
}

impl Identity {
    /// Shows this chain, the server's own certificate first, from now on.
    ///
    /// # Errors
    /// When it is no PEM, or the key is not that of the certificate. What was shown before stays.
    pub fn show(&self, chain_pem: &[u8], key_pem: &[u8]) -> Result<()> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain_pem)
            .collect::<Result<_, _>>()
            .context("the serving certificate is no PEM")?;
        let key =
            PrivateKeyDer::from_pem_slice(key_pem).context("the key of the serving certificate is no PEM")?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .context("the serving certificate and its key cannot be used together")?;
        *self.shown.write() = Some(Arc::new(certified));
        Ok(())
    }

    /// Whether there is a certificate to show. Without one, handshakes fail.
    pub fn is_present(&self) -> bool {
        self.shown.read().is_some()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("is_present", &self.is_present()).finish()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.shown.read().clone()
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    /// Where it listens: with the port that was chosen, if it was left open.
    pub address: SocketAddr,
    /// Ends when the server has.
    pub ended: JoinHandle<()>,
}

/// Serves HTTP/1.1 and HTTP/2 over TLS until `stop`, then lets requests that are under way end.
/// Keeps at most `limit` connections open.
///
/// # Errors
/// When the address cannot be listened on: it is taken, or not this machine's.
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

/// Like [`serve`], and asks clients for a certificate of this authority. Those that show none are served as
/// well; their requests say so. What clients show that is not of the authority is refused.
///
/// # Errors
/// When the address cannot be listened on: it is taken, or not this machine's.
pub(crate) async fn serve_asking(
    address: SocketAddr,
    router: Router,
    identity: Identity,
    clients: ClientCa,
    limit: usize,
    stop: CancellationToken,
) -> Result<Server> {
    let configs = Configs::new(identity, clients)?;
    listen(address, router, Arc::new(move || configs.current()), limit, stop).await
}

async fn listen(
    address: SocketAddr,
    router: Router,
    config: Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>,
    limit: usize,
    stop: CancellationToken,
) -> Result<Server> {
    let (listener, address) = server::bind(address).await?;
    Ok(Server { address, ended: server::spawn(listener, Some(config), router, limit, stop) })
}

fn tls(identity: &Identity, clients: Option<RootCertStore>) -> Result<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .context("the TLS library has no usable protocol version")?;
    let builder = match clients {
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.context("the authority of clients cannot be used")?)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(identity.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Sessions are not resumed: a new connection is verified anew, and nothing is kept for clients.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Duration};

    use axum::routing::get;
    use futures::future::join_all;
    use rcgen::{CertifiedKey as Made, generate_simple_self_signed};
    use rustls::{ClientConfig, pki_types::ServerName};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        time::timeout,
    };
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::*;

    /// How long a surplus connection may stay open.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Shows a new self-signed certificate and returns it.
    fn show(identity: &Identity) -> CertificateDer<'static> {
        let Made { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        identity.show(cert.pem().as_bytes(), signing_key.serialize_pem().as_bytes()).unwrap();
        cert.der().clone()
    }

    /// Returns the response to a client that trusts this certificate only.
    async fn ask(address: SocketAddr, trusted: &CertificateDer<'static>) -> std::io::Result<String> {
        ask_with(address, client(trusted, None)).await
    }

    #[tokio::test]
    async fn the_certificate_is_changed_while_the_server_runs() {
        let (identity, stop) = (Identity::default(), CancellationToken::new());
        let router = Router::new().route("/", get(async || "here"));
        let server =
            serve(([127, 0, 0, 1], 0).into(), router, identity.clone(), 16, stop.clone()).await.unwrap();
        let stranger = show(&Identity::default());
        assert!(ask(server.address, &stranger).await.is_err(), "without a certificate there is no handshake");

        let first = show(&identity);
        assert!(ask(server.address, &first).await.unwrap().ends_with("here"));
        let second = show(&identity);
        assert!(ask(server.address, &first).await.is_err());
        assert!(ask(server.address, &second).await.unwrap().ends_with("here"));

        stop.cancel();
        server.ended.await.unwrap();
        assert!(ask(server.address, &second).await.is_err());
    }

    #[test]
    fn what_makes_no_sense_leaves_what_is_shown() {
        let identity = Identity::default();
        show(&identity);
        let other = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let another = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (chain, key) = (other.cert.pem(), another.signing_key.serialize_pem());
        for (chain, key) in [("", key.as_str()), (chain.as_str(), ""), (&chain, &key), ("garbage", "garbage")]
        {
            assert!(identity.show(chain.as_bytes(), key.as_bytes()).is_err());
        }
        assert!(identity.is_present());
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
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

    /// A configuration of a client that shows a certificate of this authority, or none.
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

    async fn ask_with(address: SocketAddr, config: ClientConfig) -> std::io::Result<String> {
        let mut stream = connect(address, config).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn thousands_of_clients_that_idle_after_the_handshake_do_not_keep_others_out() {
        const COUNT: usize = 5000;
        const BATCH: usize = 50;
        const LIMIT: usize = 64;
        let (identity, stop) = (Identity::default(), CancellationToken::new());
        let shown = show(&identity);
        let router = Router::new().route("/", get(async || "here"));
        let served = serve(([127, 0, 0, 1], 0).into(), router, identity, LIMIT, stop).await.unwrap();
        let config = client(&shown, None);
        let mut open = Vec::new();
        for _ in 0..COUNT / BATCH {
            let more = (0..BATCH).map(|_| connect(served.address, config.clone()));
            open.extend(join_all(more).await.into_iter().map(Result::unwrap));
            assert!(ask(served.address, &shown).await.unwrap().ends_with("here"));
            let surplus = open.len().saturating_sub(LIMIT);
            let closed = open.drain(..surplus).map(async |mut stream| {
                let mut rest = Vec::new();
                timeout(PATIENCE, stream.read_to_end(&mut rest)).await.is_ok()
            });
            assert!(join_all(closed).await.into_iter().all(|is_closed| is_closed));
        }
    }

    #[tokio::test]
    async fn requests_say_whether_the_client_has_a_certificate_of_the_authority() {
        let (identity, stop) = (Identity::default(), CancellationToken::new());
        let shown = show(&identity);
        let (ours, foreign) = (authority(), authority());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &ours.pem).unwrap();
        let tell =
            get(async |client: axum::Extension<server::HasClientCertificate>| format!("{:?}", client.0.0));
        let router = Router::new().route("/", tell);
        let address = ([127, 0, 0, 1], 0).into();
        let served =
            serve_asking(address, router, identity, ClientCa::new(file.path()), 16, stop).await.unwrap();
        let ask = async |authority| ask_with(served.address, client(&shown, authority)).await;
        assert!(ask(Some(&ours)).await.unwrap().ends_with("true"));
        assert!(ask(None).await.unwrap().ends_with("false"));
        let refused = ask(Some(&foreign)).await;
        assert!(refused.as_ref().is_err() || refused.as_ref().is_ok_and(String::is_empty), "{refused:?}");
    }

    #[tokio::test]
    async fn an_authority_that_cannot_be_used_is_named_with_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let serve = async |path: &std::path::Path| {
            let (address, stop) = (([127, 0, 0, 1], 0).into(), CancellationToken::new());
            let clients = ClientCa::new(path);
            let served = serve_asking(address, Router::new(), Identity::default(), clients, 16, stop).await;
            format!("{:#}", served.unwrap_err())
        };
        let error = serve(file.path()).await;
        assert!(
            error.contains("holds no certificate") && error.contains(file.path().to_str().unwrap()),
            "{error}"
        );
        let error = serve(std::path::Path::new("/nowhere/ca.crt")).await;
        assert!(error.contains("cannot read the client CA /nowhere/ca.crt"), "{error}");
    }
}
