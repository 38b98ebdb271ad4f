//! HTTPS servers that share one certificate, which may be changed while they run.

use std::{
    fmt,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use axum::Router;
use axum_server::{Handle, tls_rustls::RustlsConfig};
use hyper_util::rt::TokioTimer;
use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// How long requests that are under way may still take when a server is asked to stop.
const GRACE: Duration = Duration::from_secs(2);
/// How long a client may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// How often an idle connection is asked whether anybody is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How many requests one HTTP/2 connection may have under way.
const STREAMS: u32 = 250;

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
///
/// # Errors
/// When the address cannot be listened on: it is taken, or not this machine's.
pub async fn serve(
    address: SocketAddr,
    router: Router,
    identity: Identity,
    stop: CancellationToken,
) -> Result<Server> {
    let listener = tokio::net::TcpListener::bind(address).await.and_then(tokio::net::TcpListener::into_std);
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr().context("cannot tell the address that is listened on")?;
    let ended = tokio::spawn(run(listener, router, tls(identity)?, stop));
    Ok(Server { address, ended })
}

fn tls(identity: Identity) -> Result<RustlsConfig> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("the TLS library has no usable protocol version")?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(identity));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(RustlsConfig::from_config(Arc::new(config)))
}

async fn run(listener: TcpListener, router: Router, tls: RustlsConfig, stop: CancellationToken) {
    let handle = Handle::new();
    let server = axum_server::from_tcp_rustls(listener, tls).map(|mut server| {
        let builder = server.http_builder();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .max_concurrent_streams(STREAMS);
        server.handle(handle.clone()).serve(router.into_make_service())
    });
    let server = match server {
        Ok(server) => server,
        Err(error) => return error!(%error, "an HTTPS server could not be started"),
    };
    let stopping = tokio::spawn(async move {
        stop.cancelled().await;
        handle.graceful_shutdown(Some(GRACE));
    });
    if let Err(error) = server.await {
        error!(%error, "an HTTPS server ended");
    }
    stopping.abort();
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use rcgen::{CertifiedKey as Made, generate_simple_self_signed};
    use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };
    use tokio_rustls::TlsConnector;

    use super::*;

    /// Shows a new self-signed certificate and returns it.
    fn show(identity: &Identity) -> CertificateDer<'static> {
        let Made { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        identity.show(cert.pem().as_bytes(), signing_key.serialize_pem().as_bytes()).unwrap();
        cert.der().clone()
    }

    /// What a client gets that trusts this certificate only.
    async fn ask(address: SocketAddr, trusted: &CertificateDer<'static>) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn the_certificate_is_changed_while_the_server_runs() {
        let (identity, stop) = (Identity::default(), CancellationToken::new());
        let router = Router::new().route("/", get(async || "here"));
        let server = serve(([127, 0, 0, 1], 0).into(), router, identity.clone(), stop.clone()).await.unwrap();
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
        let error =
            serve(address, Router::new(), Identity::default(), CancellationToken::new()).await.unwrap_err();
        assert!(format!("{error:#}").contains(&address.to_string()), "{error:#}");
    }
}
