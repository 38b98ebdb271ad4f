//! Clients of the status API, known by the common names of their certificates.

use postgres_model::status_api::{MEMBER, OPERATOR};
use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

/// Client of a connection. A full server closes connections of lower clients first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Client {
    /// Nobody who is known: before or without TLS, or with another common name.
    Unknown,
    /// Another member of the cluster.
    Member,
    /// The operator.
    Operator,
}

impl Client {
    /// Returns the client to which a certificate belongs. The certificate must be verified.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self::named(common_name(certificate).as_deref())
    }

    fn named(common_name: Option<&str>) -> Self {
        match common_name {
            Some(OPERATOR) => Self::Operator,
            Some(MEMBER) => Self::Member,
            _ => Self::Unknown,
        }
    }
}

/// Returns the common name of the subject, or `None` if there is none, or more than one.
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    names.next().is_none().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_known() {
        for (name, expected) in [
            (Some("ensemble-operator"), Client::Operator),
            (Some("streaming_replica"), Client::Member),
            (Some("Ensemble-Operator"), Client::Unknown),
            (Some("streaming_replica2"), Client::Unknown),
            (Some("ensemble-operator\0"), Client::Unknown),
            (Some(""), Client::Unknown),
            (None, Client::Unknown),
        ] {
            assert_eq!(Client::named(name), expected, "{name:?}");
        }
        assert_eq!(Client::of(&CertificateDer::from(b"invalid".to_vec())), Client::Unknown);
        assert!(Client::Unknown < Client::Member && Client::Member < Client::Operator);
    }
}
