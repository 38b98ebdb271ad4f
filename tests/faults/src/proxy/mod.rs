//! An HTTPS server that stands where the manager expects the API server, and passes on what it is asked: all of it, as
//! it is, except what a fault is meant for.

pub mod asked;
pub mod frames;
mod pump;
pub mod rules;
mod serve;
mod strike;

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

/// What open watches are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Those of a resource, or all, have expired.
    Expire(Option<String>),
    /// Those of a resource end, as they do when their time is up.
    End(String),
    /// Those of a resource, or all, are never heard of again.
    Silence(Option<String>),
    /// All connections break.
    Cut,
}

/// A proxy that runs. Ends when it is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
    authority: String,
    accepting: AbortHandle,
    /// The runs for which the manager has to die now.
    crashes: Mutex<mpsc::UnboundedReceiver<Token>>,
}

/// What the connections of a proxy share.
pub(crate) struct Shared {
    /// Passes on requests of anybody.
    upstream: Client,
    /// Does what a third hand does.
    administrator: Client,
    rules: Mutex<Rules>,
    control: broadcast::Sender<Control>,
    /// The life of the manager, and whether it is over: then nothing of it is passed on any more.
    life: watch::Sender<Life>,
    crash: mpsc::UnboundedSender<Token>,
}

/// A life of the manager.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    number: u64,
    is_over: bool,
    /// Whether nothing gets through at present.
    is_cut: bool,
}

impl Proxy {
    /// Starts a proxy before the API server of a kubeconfig of the administrator.
    pub async fn start(kubeconfig: &Path) -> Result<Self> {
        let mut config = load(kubeconfig).await?;
        let administrator = Client::try_from(config.clone()).context("make a client that touches objects")?;
        // Whoever asks says who it is; and what comes back is passed on, not tried again.
        config.auth_info = kube::config::AuthInfo::default();
        config.default_retry = false;
        let upstream = Client::try_from(config).context("make the client that passes on requests")?;
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
        let port = listener.local_addr().context("tell the port of the proxy")?.port();
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["127.0.0.1".to_owned()]).context("make the proxy's certificate")?;
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("choose versions of TLS")?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .context("use the proxy's certificate")?;
        let accepting = serve::accept(listener, TlsAcceptor::from(Arc::new(tls)), shared.clone());
        Ok(Self {
            shared,
            port,
            authority: cert.pem(),
            accepting: accepting.abort_handle(),
            crashes: crashes.into(),
        })
    }

    /// Writes a kubeconfig that leads through the proxy, with the credentials of another.
    pub fn lead(&self, kubeconfig: &Path, written: &Path) -> Result<()> {
        let read = || std::fs::read_to_string(kubeconfig);
        let text = read().with_context(|| format!("read the kubeconfig {}", kubeconfig.display()))?;
        let mut document: Value = serde_saphyr::from_str(&text).context("read a kubeconfig as YAML")?;
        let server = document.pointer_mut("/clusters/0/cluster").context("a kubeconfig names a cluster")?;
        *server = json!({
            "server": format!("https://127.0.0.1:{}", self.port),
            "certificate-authority-data": ByteString(self.authority.clone().into_bytes()),
        });
        let text = serde_saphyr::to_string(&document).context("write a kubeconfig as YAML")?;
        std::fs::write(written, text).with_context(|| format!("write {}", written.display()))
    }

    /// What is to come, and what has passed.
    pub fn rules(&self) -> MutexGuard<'_, Rules> {
        self.shared.rules.lock()
    }

    /// The run for which the manager has to die now, if there is one. Nothing of it is passed on until its next life.
    pub fn crash(&self) -> Option<Token> {
        self.crashes.lock().try_recv().ok()
    }

    /// Tells open watches something.
    pub fn tell(&self, control: Control) {
        // None may be open.
        let _ = self.shared.control.send(control);
    }

    /// Lets nothing through until it is restored: requests hang, watches fall silent.
    pub fn cut(&self, is_cut: bool) {
        self.shared.life.send_modify(|life| life.is_cut = is_cut);
        if !is_cut {
            // What was under way stays lost.
            self.tell(Control::Cut);
            self.begin_life();
        }
    }

    /// The manager has been started anew: its requests are passed on again, those of its last life never will be.
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

async fn load(kubeconfig: &Path) -> Result<Config> {
    let read = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("read the kubeconfig {}", kubeconfig.display()))?;
    Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("use the kubeconfig {}", kubeconfig.display()))
}
