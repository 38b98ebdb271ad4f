//! The operator's side of the status API.

use std::{fs, net::IpAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use postgres_instance::status_api::STATUS_PORT;
use postgres_model::report::InstanceReport;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(5);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 128 << 10;

/// Calls members as the operator does.
pub(crate) struct StatusClient {
    tls: TlsConnector,
}

impl StatusClient {
    /// Reads the certificate of the operator.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let read = |name: &str| fs::read(folder.join(name)).with_context(|| format!("cannot read {name}"));
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(&read("ca.crt")?) {
            roots.add(authority?)?;
        }
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&read("tls.crt")?).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&read("tls.key")?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        Ok(Self { tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Returns the report of a member.
    pub(crate) async fn report(&self, address: IpAddr, name: &str) -> Result<InstanceReport> {
        let request = Request::get("/status").body(Full::default())?;
        self.send(address, name, request).await
    }

    /// Asks a member to seal itself.
    pub(crate) async fn seal(&self, address: IpAddr, name: &str, epoch: u64) -> Result<InstanceReport> {
        let body = format!("{{\"epoch\": {epoch}}}");
        let request = Request::post("/seal").body(Full::from(body))?;
        self.send(address, name, request).await
    }

    async fn send(
        &self,
        address: IpAddr,
        name: &str,
        mut request: Request<Full<Bytes>>,
    ) -> Result<InstanceReport> {
        request.headers_mut().insert("host", name.parse()?);
        let exchange = async {
            let tcp = TcpStream::connect((address, STATUS_PORT)).await?;
            let tls = self.tls.connect(ServerName::try_from(name.to_owned())?, tcp).await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
            tokio::spawn(connection);
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
            ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
            Ok(InstanceReport::decode(&body)?)
        };
        timeout(REQUEST, exchange).await.with_context(|| format!("{name} did not answer"))?
    }
}
