//! Certificates of the status API, from files that can be replaced.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use tokio::time::Instant;
use tracing::{info, warn};

/// Certificates of the authorities of clients.
const AUTHORITIES: &str = "ca.crt";
/// Chain of the serving certificate.
const CHAIN: &str = "tls.crt";
/// Private key of the serving certificate.
const KEY: &str = "tls.key";

/// Reason why certificates cannot be used. Its message never contains key material.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {cause}; mount the Secret with {AUTHORITIES}, {CHAIN}, and {KEY} there", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Answer of the operating system.
        cause: io::Error,
    },
    /// A file cannot be used.
    #[error("cannot use {}: {cause}; correct the Secret that is mounted there", path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
}

/// TLS configuration for the current certificates in a folder.
pub(super) struct CertificateFiles {
    folder: PathBuf,
    refresh: Duration,
    state: Mutex<State>,
}

struct State {
    last_read: Instant,
    pem: Pem,
    config: Arc<ServerConfig>,
    /// Last failure, so that each one is logged once.
    failure: Option<String>,
}

/// Contents of the files.
#[derive(PartialEq, Eq)]
struct Pem {
    authorities: Vec<u8>,
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    /// Reads the files. They are read again for a new connection, but not more often than `refresh`.
    pub(super) fn read(folder: PathBuf, refresh: Duration) -> Result<Self, CertificateError> {
        let pem = Pem::read(&folder)?;
        let config = pem.config(&folder)?;
        let state = State { last_read: Instant::now(), pem, config, failure: None };
        Ok(Self { folder, refresh, state: Mutex::new(state) })
    }

    /// Returns the configuration for a new connection: the last valid one while the files are invalid.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        let mut state = self.state.lock();
        if state.last_read.elapsed() >= self.refresh {
            state.last_read = Instant::now();
            self.reload(&mut state);
        }
        state.config.clone()
    }

    fn reload(&self, state: &mut State) {
        match self.changed(&state.pem) {
            Ok(changed) => {
                state.failure = None;
                if let Some((pem, config)) = changed {
                    info!(folder = %self.folder.display(), "reloaded the certificates");
                    (state.pem, state.config) = (pem, config);
                }
            }
            Err(error) => {
                let failure = Some(error.to_string());
                if state.failure != failure {
                    warn!(%error, "cannot reload the certificates; keeping the previous ones");
                }
                state.failure = failure;
            }
        }
    }

    /// Returns the contents of the files and their configuration, or `None` if they are unchanged.
    fn changed(&self, previous: &Pem) -> Result<Option<(Pem, Arc<ServerConfig>)>, CertificateError> {
        let pem = Pem::read(&self.folder)?;
        if pem == *previous {
            return Ok(None);
        }
        let config = pem.config(&self.folder)?;
        Ok(Some((pem, config)))
    }
}

/// Never prints the key.
impl fmt::Debug for CertificateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateFiles").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Pem {
    fn read(folder: &Path) -> Result<Self, CertificateError> {
        let read = |name| {
            let path = folder.join(name);
            fs::read(&path).map_err(|cause| CertificateError::Read { path, cause })
        };
        Ok(Self { authorities: read(AUTHORITIES)?, chain: read(CHAIN)?, key: read(KEY)? })
    }

    fn config(&self, folder: &Path) -> Result<Arc<ServerConfig>, CertificateError> {
        let unusable = |name: &str, cause| CertificateError::Unusable { path: folder.join(name), cause };
        let roots = roots(&self.authorities).map_err(|cause| unusable(AUTHORITIES, cause))?;
        let chain = certificates(&self.chain).map_err(|cause| unusable(CHAIN, cause))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| unusable(KEY, "it contains no private key in PEM".to_owned()))?;
        config(roots, chain, key).map_err(|error| unusable(CHAIN, format!("{error} (with {KEY})")))
    }
}

fn config(
    roots: RootCertStore,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = verifier.build().map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Without session resumption, every connection is verified and no client state is stored.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        Err("it contains no certificate in PEM".to_owned())
    } else {
        Ok(certificates)
    }
}
