//! The certificate authority of clients, read from a file that may be replaced.

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

/// How often the file is read again, at most: when a client connects.
const REFRESH: Duration = Duration::from_secs(10);

/// The certificate authority whose certificates clients have to show, in a file.
#[derive(Clone, Debug)]
pub struct ClientCa {
    file: PathBuf,
}

impl ClientCa {
    /// The authority in this file, in PEM. There may be several, so that one can replace another.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into() }
    }

    fn read(&self) -> Result<Vec<u8>> {
        fs::read(&self.file).with_context(|| format!("cannot read the client CA {}", self.file.display()))
    }
}

/// The TLS configuration for the authority that the file holds now.
pub(super) struct Configs {
    identity: Identity,
    clients: ClientCa,
    state: Mutex<State>,
}

struct State {
    read: Instant,
    pem: Vec<u8>,
    config: Arc<ServerConfig>,
    /// Whether the last attempt to read the file failed, so that each turn is logged once.
    is_failing: bool,
}

impl Configs {
    /// # Errors
    /// Returns an error if the file cannot be read or holds no certificate.
    pub(super) fn new(identity: Identity, clients: ClientCa) -> Result<Self> {
        let pem = clients.read()?;
        let config = Arc::new(tls(&identity, Some(roots(&pem, &clients.file)?))?);
        let state = State { read: Instant::now(), pem, config, is_failing: false };
        Ok(Self { identity, clients, state: Mutex::new(state) })
    }

    /// Returns the configuration for a new connection. Keeps the last good one while the file
    /// cannot be used.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        let mut state = self.state.lock();
        if state.read.elapsed() >= REFRESH {
            state.read = Instant::now();
            match self.refresh(&state.pem) {
                Ok(new) => {
                    state.is_failing = false;
                    if let Some((pem, config)) = new {
                        info!(file = %self.clients.file.display(), "the client CA was replaced");
                        (state.pem, state.config) = (pem, config);
                    }
                }
                Err(error) if state.is_failing => drop(error),
                Err(error) => {
                    state.is_failing = true;
                    let error = format!("{error:#}");
                    warn!(error, "the client CA cannot be read again; the last one stays in use");
                }
            }
        }
        state.config.clone()
    }

    /// Returns what the file holds now, if that is not what it held before.
    fn refresh(&self, known: &[u8]) -> Result<Option<(Vec<u8>, Arc<ServerConfig>)>> {
        let pem = self.clients.read()?;
        if pem == known {
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
            certificate.with_context(|| format!("the client CA {} is no PEM", file.display()))?;
        let added = roots.add(certificate);
        added.with_context(|| {
            format!("the client CA {} holds a certificate that cannot be used", file.display())
        })?;
    }
    ensure!(!roots.is_empty(), "the client CA {} holds no certificate in PEM", file.display());
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> String {
        rcgen::generate_simple_self_signed(["clients".to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn a_file_that_is_replaced_is_followed_and_a_bad_one_changes_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), authority()).unwrap();
        let configs = Configs::new(Identity::default(), ClientCa::new(file.path())).unwrap();
        let first = configs.current();
        let current = || {
            let long_ago = Instant::now().checked_sub(REFRESH).unwrap();
            configs.state.lock().read = long_ago;
            configs.current()
        };
        assert!(Arc::ptr_eq(&first, &current()), "nothing changed");
        fs::write(file.path(), "no certificate").unwrap();
        assert!(Arc::ptr_eq(&first, &current()));
        fs::write(file.path(), authority()).unwrap();
        assert!(Arc::ptr_eq(&first, &configs.current()), "it is not read at each connection");
        let second = current();
        assert!(!Arc::ptr_eq(&first, &second));
        fs::remove_file(file.path()).unwrap();
        assert!(Arc::ptr_eq(&second, &current()));
    }
}
