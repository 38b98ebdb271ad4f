//! Ends of the certificates of a member.

use std::path::Path;

use postgres_model::metrics::CERTIFICATE_EXPIRY;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::parse_x509_certificate;

use super::{Sample, float};

/// Returns the ends of the certificates in a folder. Those that cannot be read are left out.
pub(super) fn samples(folder: &Path) -> Vec<Sample> {
    let expiry = |name: &str| {
        let certificate = CertificateDer::from_pem_file(folder.join(name).join("tls.crt")).ok()?;
        let (_, certificate) = parse_x509_certificate(&certificate).ok()?;
        let end = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
        Some(Sample::labelled(&CERTIFICATE_EXPIRY, &[name], float(end)))
    };
    ["server", "replication"].into_iter().filter_map(expiry).collect()
}
