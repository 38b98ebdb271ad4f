//! CA certificates of the image: Mozilla's, in the version that `Cargo.lock` pins.
//!
//! Those of the build machine would make the digest depend on the machine.

use pem::{EncodeConfig, LineEnding, Pem};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// Path at which programs read CA certificates.
pub(super) const PATH: &str = "etc/ssl/certs/ca-certificates.crt";

/// Returns all certificates as PEM.
pub(super) fn bundle() -> String {
    let certificates: Vec<_> =
        TLS_SERVER_ROOT_CERTS.iter().map(|der| Pem::new("CERTIFICATE", der.as_ref())).collect();
    pem::encode_many_config(&certificates, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_has_every_certificate() {
        let read = pem::parse_many(bundle()).unwrap();
        assert_eq!(read.len(), TLS_SERVER_ROOT_CERTS.len());
        assert!(read.len() > 50);
    }
}
