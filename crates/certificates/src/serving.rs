//! Serving certificates.

use std::fmt;

use jiff::Timestamp;
use rustls::{
    RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use crate::{
    identity::{Identity, InvalidIdentity},
    lifetimes::Validity,
    x509::{Authority, names, parse},
};

/// Serving certificate with its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Serving(Identity);

impl Serving {
    /// Parses a chain and its private key in PEM. Whether the certificate is valid depends on the time
    /// and is not checked.
    ///
    /// # Errors
    /// Returns an error if a part is not readable, or if the key belongs to another certificate.
    pub fn read(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, InvalidIdentity> {
        Identity::read(chain_pem, key_pem).map(Self)
    }

    /// Returns the chain in PEM: the serving certificate first, then any intermediates.
    pub fn chain_pem(&self) -> &[u8] {
        &self.0.chain_pem
    }

    /// Returns the private key in PEM. Keep it secret.
    pub fn key_pem(&self) -> &[u8] {
        &self.0.key_pem
    }

    /// Returns the validity of the serving certificate.
    pub fn validity(&self) -> Validity {
        self.0.validity
    }

    /// Returns the authority by which a client accepts this certificate at `now`.
    pub fn issuer<'a>(&self, authorities: &'a [Authority], now: Timestamp) -> Option<&'a Authority> {
        authorities.iter().find(|authority| self.is_trusted_by(authority, now))
    }

    /// Returns whether a client that trusts only `authority` accepts the certificate at `now`.
    pub fn is_trusted_by(&self, authority: &Authority, now: Timestamp) -> bool {
        self.0.is_trusted_by(authority, now, verify)
    }

    /// Returns whether the certificate is valid for all `names`.
    pub fn is_valid_for(&self, names: &[ServerName<'static>]) -> bool {
        let own = self.0.own().and_then(|own| ParsedCertificate::try_from(own).ok());
        own.is_some_and(|own| names.iter().all(|name| verify_server_name(&own, name).is_ok()))
    }

    /// Returns the subject alternative names.
    pub fn names(&self) -> Vec<ServerName<'static>> {
        let own = self.0.own().and_then(|own| parse(own));
        own.map(|own| names(&own)).unwrap_or_default()
    }
}

/// Never prints the key.
impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("validity", &self.validity()).finish_non_exhaustive()
    }
}

/// Verifies a certificate like a client.
fn verify(
    own: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: RootCertStore,
    now: UnixTime,
) -> Option<()> {
    let own = ParsedCertificate::try_from(own).ok()?;
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&own, &roots, intermediates, now, algorithms).ok()
}
