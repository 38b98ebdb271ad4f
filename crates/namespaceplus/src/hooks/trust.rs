//! Certificate authorities that hooks trust: those of the machine and those of a CA bundle.
//!
//! Both are read for each call. Calls are rare, and changes of the files take effect at once.

use std::{error::Error as StdError, io, path::PathBuf, sync::Arc};

use http::{Uri, uri::Scheme};
use operator_core::{Setting, Values};
use rustls::{
    CertificateError, ClientConfig, Error, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::task::spawn_blocking;

use super::request::CallError;

/// Additional certificate authorities that hooks trust.
pub const CA_BUNDLE: Setting = Setting {
    flag: "namespaceplus-ca-bundle",
    env: "NAMESPACEPLUS_CA_BUNDLE",
    default: "",
    values: Values::Any,
    help: "File of additional certificate authorities (PEM) that hooks of a NamespacePlus trust; read for each call",
};

/// Certificate authorities that calls trust.
#[derive(Clone)]
pub(super) struct Trust {
    bundle: Option<PathBuf>,
}

impl Trust {
    /// Creates a trust store. `bundle` is the path of a file, or empty.
    pub(super) fn new(bundle: &str) -> Self {
        Self { bundle: Some(bundle).filter(|path| !path.is_empty()).map(PathBuf::from) }
    }

    /// Returns the TLS configuration for a URL.
    pub(super) async fn of(&self, to: &Uri) -> Result<ClientConfig, CallError> {
        let roots = if to.scheme() == Some(&Scheme::HTTPS) {
            let trust = self.clone();
            let roots = spawn_blocking(move || trust.roots()).await;
            roots.map_err(|error| CallError::NoAuthorities(error.to_string()))??
        } else {
            RootCertStore::empty()
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions();
        let config = config.map_err(|error| CallError::NoAuthorities(error.to_string()))?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }

    fn roots(&self) -> Result<RootCertStore, CallError> {
        let machine = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(machine.certs);
        if let Some(path) = &self.bundle {
            let added =
                std::fs::read(path).map_err(|error| error.to_string()).and_then(|pem| add(&mut roots, &pem));
            added.map_err(|cause| CallError::Bundle { path: path.display().to_string(), cause })?;
        }
        if roots.is_empty() {
            let errors: Vec<_> = machine.errors.iter().map(ToString::to_string).collect();
            return Err(CallError::NoAuthorities(errors.join("; ")));
        }
        Ok(roots)
    }
}

/// Adds all certificates of a file. Fails if one of them is invalid or there are none.
fn add(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), String> {
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.len() == before { Err("the file contains no certificate".to_owned()) } else { Ok(()) }
}

/// Describes cause a certificate was rejected. Returns `None` for other errors.
pub(super) fn certificate_error(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut error = error;
    // Each layer of a connection wraps the error.
    while let Some(wrapped) = error.downcast_ref::<io::Error>() {
        error = wrapped.get_ref()?;
    }
    let Error::InvalidCertificate(refused) = error.downcast_ref()? else { return None };
    Some(match refused {
        CertificateError::UnknownIssuer => {
            "it is signed by an authority that the manager does not trust; an administrator can add the authority's \
             certificate with --namespaceplus-ca-bundle"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is not valid for the host of the url".to_owned()
        }
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(bundle: &str) -> String {
        let trust = Trust::new(bundle);
        trust.of(&Uri::from_static("https://a.b/")).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn reports_path_of_invalid_ca_bundle() {
        let error = refused("/nowhere/ca.pem").await;
        assert!(error.contains("/nowhere/ca.pem (--namespaceplus-ca-bundle): No such file"), "{error}");
        let error = refused(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).await;
        assert!(error.contains("the file contains no certificate"), "{error}");
    }

    #[tokio::test]
    async fn http_needs_no_ca_bundle() {
        Trust::new("/nowhere/ca.pem").of(&Uri::from_static("http://a.b/")).await.unwrap();
    }
}
