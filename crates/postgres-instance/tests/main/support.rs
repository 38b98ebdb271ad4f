//! Status API with certificates of its own, and its clients.

use std::{fs, io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use certificates::{Authority, Lifetimes, SigningKey, bundle, issue_client, issue_serving, new_authority};
use jiff::Timestamp;
use postgres_instance::status_api::{Addresses, Config, Health, Limits, StatusApi, StatusHandle};
use postgres_model::report::InstanceReport;
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

/// Timeout for whatever has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Address of this machine with any free port.
pub(crate) const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Authority of one cluster.
pub(crate) struct Ca {
    authority: Authority,
    key: SigningKey,
}

/// Certificate chain and private key of a client, in PEM.
pub(crate) struct Identity {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Ca {
    pub(crate) fn new() -> Self {
        let (authority, key) = new_authority(Timestamp::now(), Lifetimes::default()).unwrap();
        Self { authority, key }
    }

    /// Returns the certificate of a client with this common name.
    pub(crate) fn client(&self, common_name: &str) -> Identity {
        let (now, lifetimes) = (Timestamp::now(), Lifetimes::default());
        let client = issue_client(now, lifetimes, common_name, &self.authority, &self.key).unwrap();
        Identity { chain: client.chain_pem().to_vec(), key: client.key_pem().to_vec() }
    }

    /// Returns a serving certificate.
    pub(crate) fn serving(&self) -> Identity {
        let names = [ServerName::try_from("localhost").unwrap()];
        let (now, lifetimes) = (Timestamp::now(), Lifetimes::default());
        let serving = issue_serving(now, lifetimes, &names, &self.authority, &self.key).unwrap();
        Identity { chain: serving.chain_pem().to_vec(), key: serving.key_pem().to_vec() }
    }

    /// Writes `ca.crt`, `tls.crt`, and `tls.key`.
    pub(crate) fn write(&self, folder: &Path) {
        let serving = self.serving();
        fs::write(folder.join("ca.crt"), bundle(std::slice::from_ref(&self.authority))).unwrap();
        fs::write(folder.join("tls.crt"), serving.chain).unwrap();
        fs::write(folder.join("tls.key"), serving.key).unwrap();
    }

    /// Returns an authority and a client certificate of it that expired an hour ago.
    pub(crate) fn with_expired_client(common_name: &str) -> (Self, Identity) {
        let (hour, second) = (Duration::from_hours(1), Duration::from_secs(10));
        let lifetimes = Lifetimes::new(Duration::from_hours(240), second).unwrap();
        let then = Timestamp::now() - hour;
        let (authority, key) = new_authority(then, lifetimes).unwrap();
        let client = issue_client(then, lifetimes, common_name, &authority, &key).unwrap();
        let identity = Identity { chain: client.chain_pem().to_vec(), key: client.key_pem().to_vec() };
        (Self { authority, key }, identity)
    }

    /// Returns the configuration of a client that trusts this authority, with or without a
    /// certificate.
    pub(crate) fn client_config(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(&bundle(std::slice::from_ref(&self.authority)));
        roots.add(authority.unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let Some(identity) = identity else { return builder.with_no_client_auth() };
        let chain = CertificateDer::pem_slice_iter(&identity.chain).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(&identity.key).unwrap();
        builder.with_client_auth_cert(chain, key).unwrap()
    }
}

/// Status API that is served.
pub(crate) struct TestServer {
    pub(crate) ca: Ca,
    pub(crate) folder: TempDir,
    pub(crate) handle: StatusHandle,
    pub(crate) health: Arc<Health>,
    pub(crate) addresses: Addresses,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
    pub(crate) operator: ClientConfig,
    pub(crate) member: ClientConfig,
}

/// Limits for tests: the defaults, few connections, and a new read of the certificates each time.
pub(crate) fn limits() -> Limits {
    Limits { connections: 16, certificate_refresh: Duration::ZERO, ..Limits::default() }
}

pub(crate) fn config(folder: &Path, limits: Limits) -> Config {
    Config { status: ANY, probes: ANY, certificates: folder.to_owned(), limits }
}

/// Returns the report of a member that has just started.
pub(crate) fn report() -> InstanceReport {
    InstanceReport::starting("db-1".to_owned(), "uid".to_owned(), "0.1.0")
}

impl TestServer {
    pub(crate) async fn start(limits: Limits) -> Self {
        Self::start_with(Ca::new(), limits).await
    }

    pub(crate) async fn start_with(ca: Ca, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        ca.write(folder.path());
        let (handle, health) = (StatusHandle::new(report()), Arc::new(Health::new()));
        let config = config(folder.path(), limits);
        let api = StatusApi::bind(config, handle.clone(), health.clone()).await.unwrap();
        let (addresses, stop) = (api.addresses(), CancellationToken::new());
        let task = tokio::spawn(api.serve(stop.clone()));
        let client = |name| ca.client_config(Some(&ca.client(name)), rustls::ALL_VERSIONS);
        let (operator, member) = (client("ensemble-operator"), client("streaming_replica"));
        Self { ca, folder, handle, health, addresses, stop, task, operator, member }
    }

    /// Connects to the status API.
    pub(crate) async fn connect(&self, client: &ClientConfig) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.addresses.status).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(client.clone())).connect(name, stream).await
    }

    /// Sends a request without a body over a connection of its own.
    pub(crate) async fn send(&self, client: &ClientConfig, method: &str, path: &str) -> io::Result<Response> {
        exchange(self.connect(client).await?, &head(method, path, "")).await
    }

    /// Returns the response to the operator.
    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(&self.operator, "GET", path).await.unwrap()
    }

    /// Returns the response to `POST /seal` of the operator.
    pub(crate) async fn seal(&self, body: &str) -> Response {
        let length = format!("Content-Length: {}\r\n", body.len());
        let request = head("POST", "/seal", &length) + body;
        exchange(self.connect(&self.operator).await.unwrap(), &request).await.unwrap()
    }

    /// Returns the response to a probe.
    pub(crate) async fn probe(&self, method: &str, path: &str) -> io::Result<Response> {
        exchange(TcpStream::connect(self.addresses.probes).await?, &head(method, path, "")).await
    }

    /// Stops the server and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("the server must stop").unwrap();
    }
}

/// Returns the head of a request after whose response the connection is closed.
pub(crate) fn head(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

/// Response to a request.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Head, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// Returns the report in the body.
    pub(crate) fn report(&self) -> InstanceReport {
        assert_eq!(self.status, 200, "{self:?}");
        assert!(self.head.contains("content-type: application/json"), "{self:?}");
        InstanceReport::decode(self.body.as_bytes()).unwrap()
    }

    /// Returns the only line of a text.
    pub(crate) fn line(&self) -> &str {
        assert!(self.head.contains("content-type: text/plain; charset=utf-8"), "{self:?}");
        self.body.strip_suffix('\n').unwrap()
    }
}

/// Sends a request and reads until the server closes the connection.
pub(crate) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
) -> io::Result<Response> {
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let bytes = read_to_end(stream).await?;
    let text = String::from_utf8(bytes).unwrap();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Err(io::Error::other(format!("no response: {text:?}")));
    };
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok(Response { status, head: head.to_lowercase(), body: body.to_owned() })
}

/// Reads until the server closes the connection.
pub(crate) async fn read_to_end(mut stream: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    timeout(PATIENCE, read).await.expect("the server must close the connection")?;
    Ok(bytes)
}
