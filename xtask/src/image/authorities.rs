//! The certificate authorities that programs of the image trust: Mozilla's, of the version that Cargo.lock pins. Those of the machine
//! that builds would differ from machine to machine.

use pem::{EncodeConfig, LineEnding, Pem};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// Where programs look for them.
pub(super) const PATH: &str = "etc/ssl/certs/ca-certificates.crt";

/// All of them, as PEM.
pub(super) fn bundle() -> String {
    let certificates: Vec<_> =
        TLS_SERVER_ROOT_CERTS.iter().map(|der| Pem::new("CERTIFICATE", der.as_ref())).collect();
    pem::encode_many_config(&certificates, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_holds_every_authority() {
        let read = pem::parse_many(bundle()).unwrap();
        assert_eq!(read.len(), TLS_SERVER_ROOT_CERTS.len());
        assert!(read.len() > 50);
    }
}
