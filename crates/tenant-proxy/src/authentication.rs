//! From whom a request is: by a token in its headers, or by a client certificate.

use http::HeaderMap;
use operator_runtime::server::ClientCertificate;

use crate::{
    client_certificate::impersonation,
    credential::{Credential, of_identity},
    error::ProxyError,
    request::{Refusal, check_credentials, has_token_protocol},
};

/// From whom a request is, and how the API server learns it.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// Digest of the headers.
    credential: Credential,
    /// The headers that say it: those of the user, or those with which the proxy impersonates the user.
    headers: HeaderMap,
    /// Whether the token of the proxy must be sent with them.
    is_impersonated: bool,
}

impl Authentication {
    /// Returns from whom a request is. `certificate` is the verified one of its connection.
    ///
    /// # Errors
    /// Returns an error if the request has no credential, more than one, or a certificate of somebody whom
    /// the proxy must not impersonate.
    pub fn of(headers: &HeaderMap, certificate: Option<&ClientCertificate>) -> Result<Self, ProxyError> {
        let Some(certificate) = certificate.and_then(|certificate| certificate.0.as_deref()) else {
            check_credentials(headers)?;
            return Ok(Self::with_token(headers));
        };
        if of_identity(headers).next().is_some() || has_token_protocol(headers) {
            return Err(Refusal::TwoCredentials.into());
        }
        let headers = impersonation(certificate)?;
        // No token has the same digest: its headers are others.
        Ok(Self { credential: Credential::of(&headers), headers, is_impersonated: true })
    }

    /// Returns from whom a request with a token is.
    pub fn with_token(headers: &HeaderMap) -> Self {
        let identity = of_identity(headers).map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { credential: Credential::of(headers), headers: identity, is_impersonated: false }
    }

    /// Returns the digest.
    pub fn credential(&self) -> Credential {
        self.credential
    }

    /// Returns the headers that say to the API server from whom a request is.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns whether the proxy impersonates the user.
    pub(crate) fn is_impersonated(&self) -> bool {
        self.is_impersonated
    }
}
