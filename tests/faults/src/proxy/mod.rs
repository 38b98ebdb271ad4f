//! HTTPS proxy between the manager and the API server. It forwards requests unchanged, except for
//! injected faults.

pub mod frames;
mod inject;
pub mod request_info;
pub mod rules;
mod serve;
mod watch_relay;

use std::{net::Ipv4Addr, path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use k8s_openapi::ByteString;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::{Mutex, MutexGuard};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rules::Rules;
use rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{broadcast, mpsc, watch},
    task::AbortHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::token::Token;

/// Commands to open watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Expire the watches of a resource, or all.
    Expire(Option<String>),
    /// Close the watches of a resource, as after their timeout.
    End(String),
    /// Stop sending events to the watches of a resource, or all.
    Silence(Option<String>),
    /// Close all connections.
    Cut,
}

/// A running proxy. Stops on drop.
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
    authority: String,
    accepting: AbortHandle,
    /// Runs for which the manager must crash.
    crashes: Mutex<mpsc::UnboundedReceiver<Token>>,
}

/// State that the connections of a proxy share.
pub(crate) struct Shared {
    /// Forwards requests.
    upstream: Client,
    /// Modifies objects as a third party.
    administrator: Client,
    rules: Mutex<Rules>,
    control: broadcast::Sender<Control>,
    /// The current process of the manager. Requests of earlier processes are not forwarded.
    life: watch::Sender<Life>,
    crash: mpsc::UnboundedSender<Token>,
}

/// A process of the manager.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    number: u64,
    is_over: bool,
    /// Whether the network is partitioned.
    is_cut: bool,
}

impl Proxy {
    /// Starts a proxy for the API server of an admin kubeconfig.
    pub async fn start(kubeconfig: &Path) -> Result<Self> {
        let mut config = load(kubeconfig).await?;
        let administrator = Client::try_from(config.clone()).context("create the admin client")?;
        // Callers send their own credentials, and responses are returned without retries.
        config.auth_info = kube::config::AuthInfo::default();
        config.default_retry = false;
        let upstream = Client::try_from(config).context("create the upstream client")?;
        let (crash, crashes) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            upstream,
            administrator,
            rules: Mutex::default(),
            control: broadcast::Sender::new(64),
            life: watch::Sender::default(),
            crash,
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listen on 127.0.0.1")?;
        let port = listener.local_addr().context("get the port of the proxy")?.port();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()])
            .context("create the certificate of the proxy")?;
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("select TLS versions")?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .context("use the certificate of the proxy")?;
        // As the API server.
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let accepting = serve::accept(listener, TlsAcceptor::from(Arc::new(tls)), shared.clone());
        Ok(Self {
            shared,
            port,
            authority: cert.pem(),
            accepting: accepting.abort_handle(),
            crashes: crashes.into(),
        })
    }

    /// Writes a kubeconfig for the proxy with the credentials of a user.
    pub fn lead(&self, kubeconfig: &Path, written: &Path) -> Result<()> {
        let read = || std::fs::read_to_string(kubeconfig);
        let text = read().with_context(|| format!("read the kubeconfig {}", kubeconfig.display()))?;
        let mut document: Value = serde_saphyr::from_str(&text).context("read a kubeconfig as YAML")?;
        let server = document.pointer_mut("/clusters/0/cluster").context("the kubeconfig has no cluster")?;
        *server = json!({
            "server": format!("https://127.0.0.1:{}", self.port),
            "certificate-authority-data": ByteString(self.authority.clone().into_bytes()),
        });
        let text = serde_saphyr::to_string(&document).context("write a kubeconfig as YAML")?;
        std::fs::write(written, text).with_context(|| format!("write {}", written.display()))
    }

    /// Returns the faults and the recorded requests.
    pub fn rules(&self) -> MutexGuard<'_, Rules> {
        self.shared.rules.lock()
    }

    /// Returns the run for which the manager must crash, if any. Nothing is forwarded until it
    /// restarts.
    pub fn crash(&self) -> Option<Token> {
        self.crashes.lock().try_recv().ok()
    }

    /// Sends a command to open watches.
    pub fn send_control(&self, control: Control) {
        // There may be no open watch.
        let _ = self.shared.control.send(control);
    }

    /// Starts or ends a network partition: requests hang, and watches are silent.
    pub fn cut(&self, is_cut: bool) {
        self.shared.life.send_modify(|life| life.is_cut = is_cut);
        if !is_cut {
            // Requests from before the partition stay lost.
            self.send_control(Control::Cut);
            self.begin_life();
        }
    }

    /// Starts forwarding requests of a restarted manager. Requests of the previous process are
    /// never forwarded.
    pub fn begin_life(&self) {
        self.shared.life.send_modify(|life| {
            life.number += 1;
            life.is_over = false;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

pub(crate) async fn load(kubeconfig: &Path) -> Result<Config> {
    let read = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("read the kubeconfig {}", kubeconfig.display()))?;
    Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("use the kubeconfig {}", kubeconfig.display()))
}
