//! Certificate authorities of clients, from a file that can be replaced.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::{Identity, tls};
use crate::reload::FileReloader;

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

    /// Returns the TLS configuration for the current authorities in the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or contains no certificate.
    pub(super) fn config(self, identity: Identity) -> Result<FileReloader<ServerConfig>> {
        let file = self.file.clone();
        FileReloader::new("the client CA", vec![self.file], move |contents| {
            tls(&identity, Some(roots(&contents.concat(), "the client CA", &file)?))
        })
    }
}

/// Returns the authorities in a PEM file. `what` names the file in errors, such as `the client CA`.
///
/// # Errors
/// Returns an error if the file is not PEM, or has no certificate or one that cannot be used.
pub fn roots(pem: &[u8], what: &str, file: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.with_context(|| format!("cannot read {what} {}: not PEM", file.display()))?;
        let added = roots.add(certificate);
        added.with_context(|| format!("cannot use a certificate in {what} {}", file.display()))?;
    }
    ensure!(!roots.is_empty(), "{what} {} contains no certificate in PEM", file.display());
    Ok(roots)
}
