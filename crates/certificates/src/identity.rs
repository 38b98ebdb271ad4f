//! Certificate chain with its private key.

use std::time::Duration;

use jiff::Timestamp;
use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    sign::CertifiedKey,
};

use crate::{
    lifetimes::Validity,
    x509::{Authority, parse, roots, validity},
};

/// Certificate chain with its private key, for a server or for a client.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Chain in PEM: the own certificate first, then any intermediates.
    pub(crate) chain_pem: Vec<u8>,
    /// Private key in PEM.
    pub(crate) key_pem: Vec<u8>,
    pub(crate) validity: Validity,
    chain: Vec<CertificateDer<'static>>,
}

/// Reason why `tls.crt` and `tls.key` cannot be used. Its message never contains key material.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdentity {
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

/// Verifier of a certificate: its arguments are the certificate, the intermediates, the trusted
/// authorities, and the time.
pub(crate) type Verifier =
    fn(&CertificateDer<'_>, &[CertificateDer<'_>], RootCertStore, UnixTime) -> Option<()>;

impl Identity {
    pub(crate) fn read(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, InvalidIdentity> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain_pem)
            .collect::<Result<_, _>>()
            .map_err(|_| InvalidIdentity::Certificate)?;
        let validity =
            chain.first().and_then(|own| validity(&parse(own)?)).ok_or(InvalidIdentity::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| InvalidIdentity::Key)?;
        CertifiedKey::from_der(chain.clone(), key, &ring::default_provider())
            .map_err(|_| InvalidIdentity::Mismatch)?;
        Ok(Self { chain_pem: chain_pem.to_vec(), key_pem: key_pem.to_vec(), validity, chain })
    }

    /// Returns the own certificate, without the intermediates.
    pub(crate) fn own(&self) -> Option<&CertificateDer<'static>> {
        self.chain.first()
    }

    /// Returns whether a peer that trusts only `authority` accepts the certificate at `now`.
    pub(crate) fn is_trusted_by(&self, authority: &Authority, now: Timestamp, verify: Verifier) -> bool {
        let trusted = || {
            let (own, intermediates) = self.chain.split_first()?;
            let since = u64::try_from(now.as_second()).ok()?;
            let now = UnixTime::since_unix_epoch(Duration::from_secs(since));
            verify(own, intermediates, roots(&authority.der)?, now)
        };
        // The verifier ignores the validity of a trust anchor. Other peers check it.
        authority.validity.covers(now) && self.validity.covers(now) && trusted().is_some()
    }
}
