//! Which servers are trusted.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

use crate::settings::SettingsError;

/// Returns a configuration that trusts a bundle of authorities, or those of Mozilla.
///
/// # Errors
/// Returns an error if the bundle has no certificate, or a malformed one.
pub(super) fn config(ca_bundle: Option<&str>) -> Result<ClientConfig, SettingsError> {
    let roots = match ca_bundle {
        Some(bundle) => bundled(bundle).map_err(SettingsError::CaBundle)?,
        None => public(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| SettingsError::CaBundle(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn bundled(bundle: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("it has no certificate".to_owned()) } else { Ok(roots) }
}

fn public() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(TLS_SERVER_ROOT_CERTS.iter().cloned());
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_has_certificates() {
        let authority = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.pem();
        assert_eq!(bundled(&authority.repeat(2)).unwrap().len(), 2);
        for bundle in ["", "ca", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(matches!(config(Some(bundle)), Err(SettingsError::CaBundle(_))), "{bundle}");
        }
        assert!(!public().is_empty());
    }
}
