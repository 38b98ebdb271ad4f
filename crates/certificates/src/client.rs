//! Client certificates.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    server::WebPkiClientVerifier,
};

use crate::{
    identity::{Identity, InvalidIdentity},
    lifetimes::Validity,
    x509::{Authority, common_name},
};

/// Client certificate with its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Client(Identity);

impl Client {
    /// Parses a chain and its private key in PEM. Whether the certificate is valid depends on the time
    /// and is not checked.
    ///
    /// # Errors
    /// Returns an error if a part is not readable, or if the key belongs to another certificate.
    pub fn read(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, InvalidIdentity> {
        Identity::read(chain_pem, key_pem).map(Self)
    }

    /// Returns the chain in PEM: the client certificate first, then any intermediates.
    pub fn chain_pem(&self) -> &[u8] {
        &self.0.chain_pem
    }

    /// Returns the private key in PEM. Keep it secret.
    pub fn key_pem(&self) -> &[u8] {
        &self.0.key_pem
    }

    /// Returns the validity of the client certificate.
    pub fn validity(&self) -> Validity {
        self.0.validity
    }

    /// Returns the authority by which a server accepts this certificate at `now`.
    pub fn issuer<'a>(&self, authorities: &'a [Authority], now: Timestamp) -> Option<&'a Authority> {
        authorities.iter().find(|authority| self.0.is_trusted_by(authority, now, verify))
    }

    /// Returns the common name, which is the name of the client; `None` if there is none.
    pub fn common_name(&self) -> Option<String> {
        common_name(self.0.own()?)
    }
}

/// Never prints the key.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("validity", &self.validity()).finish_non_exhaustive()
    }
}

/// Verifies a certificate like a server.
fn verify(
    own: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: RootCertStore,
    now: UnixTime,
) -> Option<()> {
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    verifier.verify_client_cert(own, intermediates, now).ok().map(|_verified| ())
}
