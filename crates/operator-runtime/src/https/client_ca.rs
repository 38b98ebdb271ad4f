//! Certificate authorities of clients, from a file that can be replaced.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Identity, tls};

/// Minimum time between two reads of the file. A new connection triggers the read.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// PEM file with the certificate authorities that sign client certificates.
#[derive(Clone, Debug)]
pub struct ClientCa {
    file: PathBuf,
}

impl ClientCa {
    /// Creates it from the path. The file can contain several authorities, for a rotation.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into() }
    }

    fn read(&self) -> Result<Vec<u8>> {
        fs::read(&self.file).with_context(|| format!("cannot read the client CA {}", self.file.display()))
    }
}

/// TLS configuration for the current authorities in the file.
pub(super) struct ReloadingConfig {
    identity: Identity,
    clients: ClientCa,
    state: Mutex<State>,
}

struct State {
    last_read: Instant,
    pem: Vec<u8>,
    config: Arc<ServerConfig>,
    /// Whether the last read failed, so that an outage is logged once.
    is_failing: bool,
}

impl ReloadingConfig {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or contains no certificate.
    pub(super) fn new(identity: Identity, clients: ClientCa) -> Result<Self> {
        let pem = clients.read()?;
        let config = Arc::new(tls(&identity, Some(roots(&pem, &clients.file)?))?);
        let state = State { last_read: Instant::now(), pem, config, is_failing: false };
        Ok(Self { identity, clients, state: Mutex::new(state) })
    }

    /// Returns the configuration for a new connection. Keeps the last valid one while the file is
    /// invalid.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        let mut state = self.state.lock();
        if state.last_read.elapsed() >= REFRESH_INTERVAL {
            state.last_read = Instant::now();
            match self.reload(&state.pem) {
                Ok(new) => {
                    state.is_failing = false;
                    if let Some((pem, config)) = new {
                        info!(file = %self.clients.file.display(), "reloaded the client CA");
                        (state.pem, state.config) = (pem, config);
                    }
                }
                Err(error) if state.is_failing => drop(error),
                Err(error) => {
                    state.is_failing = true;
                    let error = format!("{error:#}");
                    warn!(error, "cannot reload the client CA; keeping the previous one");
                }
            }
        }
        state.config.clone()
    }

    /// Returns the content of the file and its configuration, or `None` if the content is
    /// unchanged.
    fn reload(&self, previous: &[u8]) -> Result<Option<(Vec<u8>, Arc<ServerConfig>)>> {
        let pem = self.clients.read()?;
        if pem == previous {
            return Ok(None);
        }
        let config = tls(&self.identity, Some(roots(&pem, &self.clients.file)?))?;
        Ok(Some((pem, Arc::new(config))))
    }
}

fn roots(pem: &[u8], file: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.with_context(|| format!("cannot read the client CA {}: not PEM", file.display()))?;
        let added = roots.add(certificate);
        added.with_context(|| format!("cannot use a certificate in the client CA {}", file.display()))?;
    }
    ensure!(!roots.is_empty(), "the client CA {} contains no certificate in PEM", file.display());
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> String {
        rcgen::generate_simple_self_signed(["clients".to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn reloads_replaced_file_and_ignores_invalid_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), authority()).unwrap();
        let config = ReloadingConfig::new(Identity::default(), ClientCa::new(file.path())).unwrap();
        let first = config.current();
        let current = || {
            let long_ago = Instant::now().checked_sub(REFRESH_INTERVAL).unwrap();
            config.state.lock().last_read = long_ago;
            config.current()
        };
        assert!(Arc::ptr_eq(&first, &current()), "the file is unchanged");
        fs::write(file.path(), "invalid").unwrap();
        assert!(Arc::ptr_eq(&first, &current()));
        fs::write(file.path(), authority()).unwrap();
        assert!(Arc::ptr_eq(&first, &config.current()), "the file must not be read for each connection");
        let second = current();
        assert!(!Arc::ptr_eq(&first, &second));
        fs::remove_file(file.path()).unwrap();
        assert!(Arc::ptr_eq(&second, &current()));
    }
}
