//! Parses and verifies certificates, with the verifier that TLS clients in Rust use.

use std::{fmt, net::IpAddr, time::Duration};

use jiff::Timestamp;
use rustls::{
    RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
    sign::CertifiedKey,
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

/// Serving certificate with its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Serving {
    chain_pem: Vec<u8>,
    key_pem: Vec<u8>,
    validity: Validity,
    chain: Vec<CertificateDer<'static>>,
}

/// Reason why `tls.crt` and `tls.key` cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidServing {
    /// There is no readable certificate.
    #[error("tls.crt contains no readable certificate")]
    Certificate,
    /// There is no readable private key.
    #[error("tls.key contains no readable private key")]
    Key,
    /// The private key belongs to another certificate.
    #[error("tls.key does not belong to tls.crt")]
    Mismatch,
}

impl Serving {
    /// Parses a chain and its private key in PEM. Whether the certificate is valid depends on the time
    /// and is not checked.
    ///
    /// # Errors
    /// Returns an error if a part is not readable, or if the key belongs to another certificate.
    pub fn read(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, InvalidServing> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain_pem)
            .collect::<Result<_, _>>()
            .map_err(|_| InvalidServing::Certificate)?;
        let validity =
            chain.first().and_then(|own| validity(&parse(own)?)).ok_or(InvalidServing::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| InvalidServing::Key)?;
        CertifiedKey::from_der(chain.clone(), key, &ring::default_provider())
            .map_err(|_| InvalidServing::Mismatch)?;
        Ok(Self { chain_pem: chain_pem.to_vec(), key_pem: key_pem.to_vec(), validity, chain })
    }

    /// Returns the chain in PEM: the serving certificate first, then any intermediates.
    pub fn chain_pem(&self) -> &[u8] {
        &self.chain_pem
    }

    /// Returns the private key in PEM. Keep it secret.
    pub fn key_pem(&self) -> &[u8] {
        &self.key_pem
    }

    /// Returns the validity of the serving certificate.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Returns the authority by which a client accepts this certificate at `now`.
    pub fn issuer<'a>(&self, authorities: &'a [Authority], now: Timestamp) -> Option<&'a Authority> {
        authorities.iter().find(|authority| self.is_trusted_by(authority, now))
    }

    /// Returns whether a client that trusts only `authority` accepts the certificate at `now`.
    pub fn is_trusted_by(&self, authority: &Authority, now: Timestamp) -> bool {
        let trusted = || {
            let (own, intermediates) = self.chain.split_first()?;
            let own = ParsedCertificate::try_from(own).ok()?;
            let since = u64::try_from(now.as_second()).ok()?;
            let now = UnixTime::since_unix_epoch(Duration::from_secs(since));
            let roots = roots(&authority.der)?;
            let algorithms = ring::default_provider().signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&own, &roots, intermediates, now, algorithms).ok()
        };
        // The verifier ignores the validity of a trust anchor. Other clients check it.
        authority.validity.covers(now) && self.validity.covers(now) && trusted().is_some()
    }

    /// Returns whether the certificate is valid for all `names`.
    pub fn is_valid_for(&self, names: &[ServerName<'static>]) -> bool {
        let own = self.chain.first().and_then(|own| ParsedCertificate::try_from(own).ok());
        own.is_some_and(|own| names.iter().all(|name| verify_server_name(&own, name).is_ok()))
    }

    /// Returns the subject alternative names.
    pub fn names(&self) -> Vec<ServerName<'static>> {
        let own = self.chain.first().and_then(|own| parse(own));
        own.map(|own| names(&own)).unwrap_or_default()
    }
}

/// Never prints the key.
impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("validity", &self.validity).finish_non_exhaustive()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("validity", &self.validity).finish_non_exhaustive()
    }
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    parse_x509_certificate(der).ok().map(|(_, certificate)| certificate)
}

/// Returns `notBefore` and `notAfter` of the first certificate in a PEM text, or `None` if it is
/// not readable.
pub fn lifetime(pem: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let der = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    let Validity { not_before, not_after } = validity(&parse(&der)?)?;
    Some((not_before, not_after))
}

fn roots(der: &CertificateDer<'_>) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(der.clone().into_owned()).ok()?;
    Some(roots)
}

fn validity(certificate: &X509Certificate<'_>) -> Option<Validity> {
    let time = |time: ASN1Time| Timestamp::from_second(time.timestamp()).ok();
    let validity = certificate.validity();
    Some(Validity { not_before: time(validity.not_before)?, not_after: time(validity.not_after)? })
}

fn names(certificate: &X509Certificate<'_>) -> Vec<ServerName<'static>> {
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
