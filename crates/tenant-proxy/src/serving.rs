//! The TLS configuration with which the proxy serves users.
//!
//! The serving certificate comes from files. The authorities of client certificates are those of the API server,
//! which publishes them for programs such as this one in a ConfigMap.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use operator_core::error::chain;
use operator_runtime::{
    https::{Identity, roots, tls},
    reload::FileReloader,
};
use parking_lot::RwLock;
use rustls::ServerConfig;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::flags::Flags;

/// Namespace and name of the ConfigMap, and its key with the authorities.
pub const CLIENT_CA: (&str, &str, &str) =
    ("kube-system", "extension-apiserver-authentication", "client-ca-file");
/// Interval in which the authorities are read.
const REFRESH_INTERVAL: Duration = Duration::from_mins(1);
/// Time until they are read again after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// The TLS configuration of new connections.
pub struct Serving {
    identity: Identity,
    certificate: FileReloader<()>,
    config: RwLock<Arc<ServerConfig>>,
    has_client_ca: AtomicBool,
}

impl Serving {
    /// Reads the serving certificate. Client certificates are not requested.
    ///
    /// # Errors
    /// Returns an error if the files cannot be read, or have no certificate and its key.
    pub fn new(flags: &Flags) -> Result<Self> {
        let files = vec![flags.tls_cert_file.clone(), flags.tls_private_key_file.clone()];
        let identity = Identity::default();
        let replaced = identity.clone();
        let certificate = FileReloader::new("the serving certificate", files, move |contents| {
            let [chain, key] = contents else { bail!("a certificate has two files") };
            replaced.set(chain, key)
        })?;
        let config = RwLock::new(Arc::new(tls(&identity, None)?));
        Ok(Self { identity, certificate, config, has_client_ca: AtomicBool::new(false) })
    }

    /// Returns the configuration of a connection to the API.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.certificate.current();
        self.config.read().clone()
    }

    /// Returns a configuration that requests no client certificates.
    ///
    /// # Errors
    /// Returns an error if TLS has no protocol version.
    pub fn without_clients(self: &Arc<Self>) -> Result<impl Fn() -> Arc<ServerConfig> + Send + Sync + use<>> {
        let (serving, config) = (self.clone(), Arc::new(tls(&self.identity, None)?));
        Ok(move || {
            serving.certificate.current();
            config.clone()
        })
    }

    /// Returns whether client certificates are requested.
    pub fn has_client_ca(&self) -> bool {
        self.has_client_ca.load(Ordering::Relaxed)
    }

    /// Requests client certificates of the authorities in a text in PEM. The certificates of open connections stay.
    fn set_client_ca(&self, pem: &str) -> Result<()> {
        let roots = roots(pem.as_bytes(), "the client CA of the API server", Path::new(CLIENT_CA.1))?;
        *self.config.write() = Arc::new(tls(&self.identity, Some(roots))?);
        self.has_client_ca.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps the authorities of client certificates up to date, for as long as it is polled.
    pub async fn follow_client_ca(self: Arc<Self>, client: Client) {
        let config_maps = Api::<ConfigMap>::namespaced(client, CLIENT_CA.0);
        let (mut present, mut failure) = (String::new(), None);
        loop {
            let read = read(&config_maps).await;
            let changed = read.and_then(|pem| {
                if pem == present {
                    return Ok(());
                }
                self.set_client_ca(&pem)?;
                info!("client certificates are accepted from the authorities of the API server");
                present = pem;
                Ok(())
            });
            let error = changed.err().map(|error| chain(error.as_ref()));
            if let Some(error) = error.as_ref().filter(|_| error != failure) {
                warn!(error, "cannot use the client CA of the API server; trying again");
            }
            sleep(if error.is_none() { REFRESH_INTERVAL } else { RETRY }).await;
            failure = error;
        }
    }
}

/// Reads the authorities.
async fn read(config_maps: &Api<ConfigMap>) -> Result<String> {
    let (namespace, name, key) = CLIENT_CA;
    let read = config_maps.get(name).await;
    let config_map = read.with_context(|| format!("cannot read the ConfigMap {namespace}/{name}"))?;
    let pem = config_map.data.and_then(|mut data| data.remove(key));
    pem.with_context(|| {
        format!("the ConfigMap {namespace}/{name} has no {key}: the API server has no client CA")
    })
}
