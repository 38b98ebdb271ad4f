//! Parses certificates.

use std::{fmt, net::IpAddr};

use jiff::Timestamp;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use x509_parser::{
    certificate::X509Certificate, extensions::GeneralName, parse_x509_certificate, time::ASN1Time,
};

use crate::lifetimes::{Lifetimes, Validity, after};

/// Certificate of an authority that clients trust.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) validity: Validity,
    pub(crate) public_key: Vec<u8>,
}

impl Authority {
    /// Parses a bundle in PEM, in its order and without duplicates. Leaves out whatever is not a
    /// certificate authority.
    pub fn read_all(pem: &[u8]) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for der in CertificateDer::pem_slice_iter(pem).filter_map(Result::ok) {
            if let Some(authority) = Self::read(der)
                && !found.contains(&authority)
            {
                found.push(authority);
            }
        }
        found
    }

    /// Returns the validity of the authority.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Returns when every client that trusts the bundle trusts this authority.
    pub fn signs_after(&self, lifetimes: Lifetimes) -> Timestamp {
        after(self.validity.issued_at(), lifetimes.propagation())
    }

    pub(crate) fn read(der: CertificateDer<'static>) -> Option<Self> {
        let read = parse(&der)?;
        let validity = validity(&read)?;
        let public_key = read.public_key().subject_public_key.data.to_vec();
        let usage = read.key_usage().ok()?;
        let may_sign = read.is_ca() && usage.is_none_or(|usage| usage.value.key_cert_sign());
        // The self-signature detects damaged bytes. TLS clients do not check it.
        let is_whole = read.verify_signature(None).is_ok();
        let is_usable = may_sign && is_whole && roots(&der).is_some();
        is_usable.then_some(Self { der, validity, public_key })
    }
}

/// Encodes authorities in PEM, as `ca.crt` and `caBundle` hold them.
pub fn bundle(authorities: &[Authority]) -> Vec<u8> {
    encode(authorities.iter().map(|authority| &authority.der))
}

/// Returns the readable certificates of a bundle from another issuer in PEM, including self-signed
/// serving certificates.
pub fn readable_certificates(bundle: &[u8]) -> Vec<u8> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
    encode(certificates.iter().filter(|der| parse(der).is_some()))
}

fn encode<'a>(certificates: impl Iterator<Item = &'a CertificateDer<'static>>) -> Vec<u8> {
    let blocks: Vec<_> = certificates.map(|der| pem::Pem::new("CERTIFICATE", der.to_vec())).collect();
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_many_config(&blocks, config).into_bytes()
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("validity", &self.validity).finish_non_exhaustive()
    }
}

pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    parse_x509_certificate(der).ok().map(|(_, certificate)| certificate)
}

/// Returns `notBefore` and `notAfter` of the first certificate in a PEM text, or `None` if it is
/// not readable.
pub fn lifetime(pem: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let der = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    let Validity { not_before, not_after } = validity(&parse(&der)?)?;
    Some((not_before, not_after))
}

pub(crate) fn roots(der: &CertificateDer<'_>) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(der.clone().into_owned()).ok()?;
    Some(roots)
}

pub(crate) fn validity(certificate: &X509Certificate<'_>) -> Option<Validity> {
    let time = |time: ASN1Time| Timestamp::from_second(time.timestamp()).ok();
    let validity = certificate.validity();
    Some(Validity { not_before: time(validity.not_before)?, not_after: time(validity.not_after)? })
}

/// Returns the common name of the subject.
pub(crate) fn common_name(der: &CertificateDer<'_>) -> Option<String> {
    let certificate = parse(der)?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}

pub(crate) fn names(certificate: &X509Certificate<'_>) -> Vec<ServerName<'static>> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
    names.iter().filter_map(name).collect()
}

fn name(name: &GeneralName<'_>) -> Option<ServerName<'static>> {
    match name {
        GeneralName::DNSName(name) => ServerName::try_from((*name).to_owned()).ok(),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok()?;
            Some(ServerName::from(address))
        }
        _ => None,
    }
}
