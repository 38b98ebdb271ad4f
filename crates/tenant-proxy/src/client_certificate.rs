//! Client certificates: the headers with which the proxy impersonates their users.
//!
//! TLS ends at the proxy, so the API server cannot see the certificate. The proxy reads user, groups, and UID
//! as the API server does (`k8s.io/apiserver/pkg/authentication/request/x509`), and refuses more: identities
//! of the system, and names that would be other ones in a header.

use http::{HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use x509_parser::{
    der_parser::{Oid, oid},
    parse_x509_certificate,
    x509::AttributeTypeAndValue,
};

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
/// Attribute of the subject that is the UID of the user, as the API server reads it.
const UID_ATTRIBUTE: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);
/// Beginning of the names of users and groups of the system.
const SYSTEM: &str = "system:";
/// Most groups of a user.
const MAX_GROUPS: usize = 64;

/// Why the user of a certificate is not impersonated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// It cannot be read.
    #[error("the client certificate cannot be read")]
    Malformed,
    /// It was valid when the connection began, and is not any more.
    #[error("the client certificate has ended; get a new one")]
    Ended,
    /// It has no common name, or several.
    #[error("the client certificate must have one common name (CN), which is the user")]
    User,
    /// It has too many organizations.
    #[error("the client certificate has more than {MAX_GROUPS} organizations (O), which are the groups")]
    Groups,
    /// It has several UIDs.
    #[error("the client certificate has more than one UID")]
    Uid,
    /// It names a user or a group of the system.
    #[error(
        "the proxy impersonates no user and no group whose name begins with {SYSTEM:?}; \
         use the API server itself"
    )]
    System,
    /// A name cannot be sent in a header without becoming another one.
    #[error("a name in the client certificate is empty, or has control characters or spaces at an end")]
    Name,
}

/// Returns the headers that impersonate the user of a certificate, which an authority of the cluster signed.
///
/// # Errors
/// Returns an error if the certificate has ended, or if its user must not be impersonated.
pub fn impersonation(certificate: &CertificateDer<'_>) -> Result<HeaderMap, CertificateError> {
    let (_, certificate) = parse_x509_certificate(certificate).map_err(|_| CertificateError::Malformed)?;
    if !certificate.validity().is_valid() {
        return Err(CertificateError::Ended);
    }
    let (subject, uid_attribute) = (certificate.subject(), UID_ATTRIBUTE);
    let users = texts(subject.iter_common_name())?;
    let groups = texts(subject.iter_organization())?;
    let uids = texts(subject.iter_by_oid(&uid_attribute))?;
    let ([user], true, [] | [_]) = (users.as_slice(), groups.len() <= MAX_GROUPS, uids.as_slice()) else {
        return Err(match (users.len(), groups.len()) {
            (1, ..=MAX_GROUPS) => CertificateError::Uid,
            (1, _) => CertificateError::Groups,
            _ => CertificateError::User,
        });
    };
    if [*user].iter().chain(&groups).any(|name| name.starts_with(SYSTEM)) {
        return Err(CertificateError::System);
    }
    let mut headers = HeaderMap::new();
    headers.insert(USER, value(user)?);
    for group in &groups {
        headers.append(GROUP, value(group)?);
    }
    for uid in &uids {
        headers.insert(UID, value(uid)?);
    }
    Ok(headers)
}

fn texts<'n>(
    attributes: impl Iterator<Item = &'n AttributeTypeAndValue<'n>>,
) -> Result<Vec<&'n str>, CertificateError> {
    attributes.map(|attribute| attribute.as_str().map_err(|_| CertificateError::Malformed)).collect()
}

/// Returns a name as a header. Spaces at its ends would be removed on the way.
fn value(name: &str) -> Result<HeaderValue, CertificateError> {
    if name.is_empty() || name.trim() != name || name.chars().any(char::is_control) {
        return Err(CertificateError::Name);
    }
    HeaderValue::from_bytes(name.as_bytes()).map_err(|_| CertificateError::Name)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};

    use super::*;

    const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

    fn with(subject: &[(DnType, &str)], last_year: i32) -> Result<HeaderMap, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.not_after = date_time_ymd(last_year, 1, 1);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        impersonation(certificate.der())
    }

    fn of(subject: &[(DnType, &str)]) -> Result<HeaderMap, CertificateError> {
        with(subject, 4000)
    }

    #[test]
    fn user_groups_and_uid_become_headers() {
        let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        let second = DnType::CustomDnType(ORGANIZATION.to_vec());
        let headers = of(&[
            (DnType::CommonName, "al\u{ef}ce, of oil"),
            (DnType::OrganizationName, "oil"),
            (second, "gas,coal"),
            (uid, "42"),
        ])
        .unwrap();
        let all = |name: HeaderName| {
            let mut all: Vec<_> =
                headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect();
            all.sort();
            all
        };
        assert_eq!(all(USER), ["al\u{ef}ce, of oil".as_bytes()]);
        assert_eq!(all(GROUP), [b"gas,coal".to_vec(), b"oil".to_vec()]);
        assert_eq!((all(UID), headers.len()), (vec![b"42".to_vec()], 4));
    }

    #[test]
    fn certificates_of_the_system_and_unclear_ones_are_refused() {
        let (cn, o) = (DnType::CommonName, DnType::OrganizationName);
        for (subject, expected) in [
            (vec![(o.clone(), "oil")], CertificateError::User),
            (vec![(cn.clone(), "a"), (DnType::CustomDnType(vec![2, 5, 4, 3]), "b")], CertificateError::User),
            (vec![(cn.clone(), "system:serviceaccount:x:y")], CertificateError::System),
            (vec![(cn.clone(), "system:node:n")], CertificateError::System),
            (vec![(cn.clone(), "a"), (o.clone(), "system:masters")], CertificateError::System),
            (vec![(cn.clone(), "")], CertificateError::Name),
            (vec![(cn.clone(), "alice ")], CertificateError::Name),
            (vec![(cn.clone(), "alice\u{a0}")], CertificateError::Name),
            (vec![(cn.clone(), "alice\nImpersonate-Group: system:masters")], CertificateError::Name),
            (vec![(cn.clone(), "a"), (o, "")], CertificateError::Name),
        ] {
            assert_eq!(of(&subject), Err(expected), "{subject:?}");
        }
        assert_eq!(with(&[(cn, "alice")], 2020), Err(CertificateError::Ended));
        assert_eq!(impersonation(&CertificateDer::from(vec![1, 2, 3])), Err(CertificateError::Malformed));
    }
}
