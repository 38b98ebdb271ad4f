//! Failures between this program and the object store.

use std::{error::Error, io, iter, time::Duration};

use object_store::client::{HttpError, HttpErrorKind};

/// Failure of a connection, a handshake, or a transfer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(super) struct TransportError {
    text: String,
    /// Whether the certificate of the server is not trusted, which no other attempt changes.
    pub(super) is_certificate: bool,
}

impl TransportError {
    /// Returns the failure that an error describes, with its causes.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let is_certificate = causes(error).any(is_certificate);
        // The first ones only name the layer: "client error (Connect)".
        let mut texts: Vec<_> = causes(error).map(ToString::to_string).collect();
        texts.dedup();
        let first = texts.len().saturating_sub(2);
        Self { text: texts.split_off(first).join(": "), is_certificate }
    }

    pub(super) fn timeout(after: Duration) -> Self {
        Self { text: format!("no answer within {after:?}"), is_certificate: false }
    }
}

/// Returns an error and its causes, with the errors inside of I/O errors, which are no causes of them.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |&error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

fn is_certificate(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
}

impl From<TransportError> for HttpError {
    fn from(error: TransportError) -> Self {
        Self::new(HttpErrorKind::Unknown, error)
    }
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;

    use super::*;

    #[test]
    fn innermost_causes_are_told() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused");
        let error = io::Error::other(io::Error::other(refused));
        assert_eq!(TransportError::of(&error).to_string(), "connection refused");
    }

    #[test]
    fn certificate_is_found_inside_of_io_errors() {
        let error = io::Error::other(io::Error::other(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer,
        )));
        let error = TransportError::of(&error);
        assert!(error.is_certificate, "{error}");
        assert!(error.to_string().contains("UnknownIssuer"), "{error}");
        assert!(!TransportError::timeout(Duration::from_secs(1)).is_certificate);
    }
}
