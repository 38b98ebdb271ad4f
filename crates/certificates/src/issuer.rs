//! Issues keys and certificates. Keys are ECDSA on P-256, which every TLS client supports.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType, date_time_ymd,
};
use rustls::pki_types::ServerName;

use crate::{
    client::Client,
    lifetimes::{Lifetimes, Validity},
    serving::Serving,
    x509::Authority,
};

/// Maximum number of characters of a common name, by RFC 5280.
const LONGEST_COMMON_NAME: usize = 64;

/// Private key of a certificate authority.
pub struct SigningKey(KeyPair);

/// Error while issuing a certificate. Its message never contains key material.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// A key or certificate cannot be generated, for example because the operating system provides
    /// no randomness.
    #[error("cannot generate a key or certificate")]
    Generate(#[from] rcgen::Error),
    /// The common name does not fit into a certificate.
    #[error(
        "cannot issue a certificate for the common name {0:?}: it must have 1 to {LONGEST_COMMON_NAME} characters, and no control characters"
    )]
    CommonName(String),
    /// The new certificate cannot be parsed, which is a bug.
    #[error("a certificate that was just issued cannot be parsed; this is a bug")]
    Unusable,
}

impl SigningKey {
    /// Parses a PKCS#8 private key in PEM. Returns `None` if it is not readable.
    pub fn read(pem: &[u8]) -> Option<Self> {
        KeyPair::from_pem(std::str::from_utf8(pem).ok()?).ok().map(Self)
    }

    /// Returns the key as PKCS#8 in PEM. Keep it secret.
    pub fn pem(&self) -> Vec<u8> {
        self.0.serialize_pem().into_bytes()
    }

    /// Returns whether this is the private key of `authority`.
    pub fn belongs_to(&self, authority: &Authority) -> bool {
        self.0.der_bytes() == authority.public_key
            && Issuer::from_ca_cert_der(&authority.der, &self.0).is_ok()
    }
}

/// Creates a certificate authority, which is valid for [`Lifetimes::authority`].
///
/// It signs certificates, but no further authorities. Its validity starts a few minutes before `now`,
/// because clocks differ.
///
/// # Errors
/// Returns an error if the operating system provides no randomness.
pub fn new_authority(now: Timestamp, lifetimes: Lifetimes) -> Result<(Authority, SigningKey), IssueError> {
    let made = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let mut params = params(&format!("ensemble certificate authority of {made}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, Validity::starting(now, lifetimes.authority()));
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let authority = Authority::read(certificate.der().clone()).ok_or(IssueError::Unusable)?;
    Ok((authority, SigningKey(key)))
}

/// Issues a serving certificate for `names`, with a new private key. It is valid for
/// [`Lifetimes::serving`] and never outlives its authority.
///
/// `key` must be the private key of `authority`; otherwise no client trusts the certificate. The
/// validity starts a few minutes before `now`, because clocks differ, but not before that of the
/// authority.
///
/// # Errors
/// Returns an error if the operating system provides no randomness.
pub fn issue_serving(
    now: Timestamp,
    lifetimes: Lifetimes,
    names: &[ServerName<'static>],
    authority: &Authority,
    key: &SigningKey,
) -> Result<Serving, IssueError> {
    let mut params = params("ensemble");
    params.subject_alt_names = names.iter().filter_map(alternative_name).collect();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let (chain, key) = issue(now, lifetimes, params, authority, key)?;
    Serving::read(chain.as_bytes(), key.as_bytes()).map_err(|_| IssueError::Unusable)
}

/// Issues a client certificate for the client `common_name`, with a new private key. It is valid for
/// [`Lifetimes::serving`] and never outlives its authority.
///
/// The name is that of a database user, for example. `key` and the start of the validity are as in
/// [`issue_serving`].
///
/// # Errors
/// Returns an error if the common name does not fit into a certificate, or if the operating system
/// provides no randomness.
pub fn issue_client(
    now: Timestamp,
    lifetimes: Lifetimes,
    common_name: &str,
    authority: &Authority,
    key: &SigningKey,
) -> Result<Client, IssueError> {
    let is_possible = (1..=LONGEST_COMMON_NAME).contains(&common_name.chars().count());
    if !is_possible || common_name.chars().any(char::is_control) {
        return Err(IssueError::CommonName(common_name.to_owned()));
    }
    let mut params = params(common_name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let (chain, key) = issue(now, lifetimes, params, authority, key)?;
    Client::read(chain.as_bytes(), key.as_bytes()).map_err(|_| IssueError::Unusable)
}

/// Issues a certificate, and returns its chain and its private key in PEM.
fn issue(
    now: Timestamp,
    lifetimes: Lifetimes,
    mut params: CertificateParams,
    authority: &Authority,
    key: &SigningKey,
) -> Result<(String, String), IssueError> {
    let mut validity = Validity::starting(now, lifetimes.serving());
    validity.not_after = validity.not_after.min(authority.validity.not_after);
    validity.not_before = validity.not_before.max(authority.validity.not_before);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, validity);
    let issuer = Issuer::from_ca_cert_der(&authority.der, &key.0)?;
    let own = KeyPair::generate()?;
    let certificate = params.signed_by(&own, &issuer)?;
    Ok((certificate.pem(), own.serialize_pem()))
}

fn params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}

fn set_validity(params: &mut CertificateParams, validity: Validity) {
    let time = |time: Timestamp| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(time.as_second().try_into().unwrap_or_default())
    };
    params.not_before = time(validity.not_before);
    params.not_after = time(validity.not_after);
}

fn alternative_name(name: &ServerName<'static>) -> Option<SanType> {
    match name {
        ServerName::DnsName(name) => Some(SanType::DnsName(name.as_ref().try_into().ok()?)),
        ServerName::IpAddress(address) => Some(SanType::IpAddress((*address).into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lifetimes::after,
        testing::{names, time},
    };

    #[test]
    fn issued_certificate_is_valid_for_its_names_and_lifetime() {
        let (lifetimes, now) = (Lifetimes::default(), time(0));
        let (authority, key) = super::new_authority(now, lifetimes).unwrap();
        let wanted = names(&["a.b.svc", "10.0.0.1", "::1"]);
        let serving = super::issue_serving(now, lifetimes, &wanted, &authority, &key).unwrap();
        assert!(serving.is_valid_for(&wanted) && !serving.is_valid_for(&names(&["other.b.svc"])));
        assert_eq!(serving.names(), wanted);
        assert!(serving.is_trusted_by(&authority, now));
        assert!(serving.is_trusted_by(&authority, serving.validity().not_before));
        assert!(!serving.is_trusted_by(&authority, serving.validity().not_after));
        let (other, _) = super::new_authority(now, lifetimes).unwrap();
        assert!(!serving.is_trusted_by(&other, now));
    }

    #[test]
    fn validity_lies_within_that_of_the_authority() {
        let lifetimes = Lifetimes::default();
        let (authority, key) = super::new_authority(time(7200), lifetimes).unwrap();
        let Validity { not_before, not_after } = authority.validity;
        // The first clock is two hours slow. The last certificate is issued just before the end.
        for (issued, expected) in [
            (time(0), (not_before, after(time(0), lifetimes.serving()))),
            (not_after - Duration::from_mins(1), (not_after - Duration::from_mins(6), not_after)),
        ] {
            let serving = issue_serving(issued, lifetimes, &names(&["a.svc"]), &authority, &key).unwrap();
            let client = issue_client(issued, lifetimes, "user", &authority, &key).unwrap();
            for validity in [serving.validity(), client.validity()] {
                assert_eq!((validity.not_before, validity.not_after), expected);
            }
        }
    }

    #[test]
    fn key_matches_only_its_authority() {
        let (authority, key) = super::new_authority(time(0), Lifetimes::default()).unwrap();
        let (_, other) = super::new_authority(time(0), Lifetimes::default()).unwrap();
        let read = SigningKey::read(&key.pem()).unwrap();
        assert!(read.belongs_to(&authority) && !other.belongs_to(&authority));
        assert!(SigningKey::read(b"invalid").is_none());
    }
}
