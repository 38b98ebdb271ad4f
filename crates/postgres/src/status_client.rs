//! Client of the status API of the members.

use std::{net::IpAddr, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use postgres_model::{
    report::{InstanceReport, ReportError},
    status_api::PORT,
};
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

/// How long a member may take for a connection or an answer, beside the time that it is asked to wait.
const LIMIT: Duration = Duration::from_secs(5);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 128 << 10;
/// Bytes that are read at once: a report. Each connection keeps a buffer of this size while it waits for news.
const READ_BUFFER: usize = 2 << 10;

/// Error of a request to a member.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The member cannot be reached.
    #[error("cannot connect to the member")]
    Connect(#[source] std::io::Error),
    /// The host of the member is no name.
    #[error("the member has no valid name")]
    Name(#[from] InvalidDnsNameError),
    /// The request failed.
    #[error("the request to the member failed")]
    Request(#[from] hyper::Error),
    /// The answer is too long, or broke off.
    #[error("cannot read the answer of the member: {0}")]
    Answer(Box<dyn std::error::Error + Send + Sync>),
    /// The member refused the request.
    #[error("the member answered {0}: {1}")]
    Refused(StatusCode, String),
    /// The answer is not a report.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Another Pod answers at the address of the member.
    #[error("the Pod with the UID {0} answers at the address of the member")]
    OtherPod(String),
    /// The member did not answer in time.
    #[error("the member did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
}

/// Reason why the certificates of the operator cannot be used. Never contains key material.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the certificates of the operator: {0}")]
pub struct ClientError(String);

/// Connects to members with the certificate of the operator.
pub struct StatusClient {
    tls: TlsConnector,
}

impl StatusClient {
    /// Creates a client from texts in PEM: the authorities of the members, and the own certificate
    /// with its private key.
    ///
    /// # Errors
    /// Returns an error if one of them cannot be used.
    pub fn new(authorities: &[u8], chain: &[u8], key: &[u8]) -> Result<Self, ClientError> {
        let invalid = |error: &dyn std::fmt::Display| ClientError(error.to_string());
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities) {
            roots.add(authority.map_err(|error| invalid(&error))?).map_err(|error| invalid(&error))?;
        }
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| invalid(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| ClientError("no private key".to_owned()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_root_certificates(roots).with_client_auth_cert(chain, key))
            .map_err(|error| invalid(&error))?;
        // A connection lasts as long as its member. The cache of sessions would be empty and large.
        config.resumption = Resumption::disabled();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Connects to a member, whose certificate must have the name `host`.
    ///
    /// # Errors
    /// Returns an error if the member does not answer, or is not the one with this name.
    pub async fn connect(&self, address: IpAddr, host: &str) -> Result<StatusConnection, StatusError> {
        let name = ServerName::try_from(host.to_owned())?;
        let connecting = async {
            let tcp = TcpStream::connect((address, PORT)).await.map_err(StatusError::Connect)?;
            tcp.set_nodelay(true).map_err(StatusError::Connect)?;
            let tls = self.tls.connect(name, tcp).await.map_err(StatusError::Connect)?;
            let mut http = http1::Builder::new();
            Ok(http.read_buf_exact_size(Some(READ_BUFFER)).handshake(TokioIo::new(tls)).await?)
        };
        // On the heap: the task that waits for reports of a member would reserve 4 KiB for it.
        let (sender, connection) = within(LIMIT, Box::pin(connecting)).await?;
        // An async block around it would reserve memory for it twice.
        let task = AbortOnDropHandle::new(tokio::spawn(connection));
        Ok(StatusConnection { sender, host: host.to_owned(), _task: task })
    }
}

/// Connection to a member.
pub struct StatusConnection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    _task: AbortOnDropHandle<hyper::Result<()>>,
}

impl StatusConnection {
    /// Returns the report of the member. With `after`, waits up to `wait` for a report with a higher
    /// sequence.
    ///
    /// # Errors
    /// Returns an error if the member does not answer, or refuses.
    pub async fn report(
        &mut self,
        after: Option<u64>,
        wait: Duration,
    ) -> Result<InstanceReport, StatusError> {
        let query = after.map_or_else(String::new, |after| format!("?after={after}&wait={}", wait.as_secs()));
        self.send("GET", &format!("/status{query}"), Bytes::new(), LIMIT + wait).await
    }

    /// Asks the member to receive no more WAL, and to remember the epoch. Returns its report.
    ///
    /// # Errors
    /// Returns an error if the member does not answer, or refuses.
    pub async fn seal(&mut self, epoch: u64) -> Result<InstanceReport, StatusError> {
        let body = Bytes::from(format!("{{\"epoch\":{epoch}}}"));
        self.send("POST", "/seal", body, LIMIT).await
    }

    /// Asks the member for a base backup. Returns its report when the backup has begun.
    ///
    /// # Errors
    /// Returns an error if the member does not answer, or refuses because another backup runs.
    pub async fn backup(
        &mut self,
        uid: &str,
        immediate_checkpoint: bool,
        incremental: bool,
    ) -> Result<InstanceReport, StatusError> {
        let body = serde_json::json!({
            "uid": uid, "immediateCheckpoint": immediate_checkpoint, "incremental": incremental,
        });
        self.send("POST", "/backup", body.to_string().into(), LIMIT).await
    }

    /// Asks the primary to finish a WAL file, if it is still the present one.
    ///
    /// # Errors
    /// Returns an error if the member does not answer, or refuses.
    pub async fn switch_wal(&mut self, file: &str) -> Result<InstanceReport, StatusError> {
        let body = serde_json::json!({"file": file});
        self.send("POST", "/switch-wal", body.to_string().into(), LIMIT).await
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<InstanceReport, StatusError> {
        let request = Request::builder().method(method).uri(path).header("host", self.host.as_str());
        let request = request.body(Full::new(body)).map_err(|error| StatusError::Answer(error.into()))?;
        let exchange = async {
            self.sender.ready().await?;
            let answer = self.sender.send_request(request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(StatusError::Answer)?.to_bytes();
            if !status.is_success() {
                return Err(StatusError::Refused(status, String::from_utf8_lossy(&body).trim().to_owned()));
            }
            Ok(InstanceReport::decode(&body)?)
        };
        within(limit, exchange).await
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StatusError>>,
) -> Result<T, StatusError> {
    timeout(limit, work).await.unwrap_or(Err(StatusError::Timeout(limit)))
}
