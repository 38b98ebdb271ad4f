//! The endpoint for the requests of ServiceAccounts.

use capsule::api::v1beta2::{Impersonation, InvalidEndpoint, SecretKey};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use operator_core::endpoint::Endpoint;

/// Reason why the endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointError {
    /// The address cannot be used.
    #[error(transparent)]
    Address(#[from] InvalidEndpoint),
    /// The Secret with the authorities, `namespace/name`, could not be read.
    #[error(
        "cannot read Secret {0} of spec.impersonation of the CapsuleConfiguration; create it, and let the manager get \
         it"
    )]
    Secret(String, #[source] kube::Error),
    /// The Secret has no certificates.
    #[error(
        "key {key} of Secret {secret}, which spec.impersonation of the CapsuleConfiguration names, has no certificate \
         in PEM"
    )]
    NoCertificate {
        /// The key.
        key: String,
        /// `namespace/name` of the Secret.
        secret: String,
    },
}

/// Returns the endpoint of the settings. `None`: requests go where those of the manager go.
///
/// # Errors
/// Returns an error if the address is invalid, or if the Secret of the settings has no certificates.
pub(crate) async fn endpoint(
    client: &Client,
    settings: &Impersonation,
    manager_namespace: &str,
) -> Result<Option<Endpoint>, EndpointError> {
    let url = settings.url()?;
    let authorities = match settings.authorities(manager_namespace) {
        Some(secret) => Some(read(client, secret).await?),
        None => None,
    };
    let endpoint = Endpoint { url, authorities, skip_tls_verify: settings.skip_tls_verify };
    Ok((endpoint != Endpoint::default()).then_some(endpoint))
}

async fn read(client: &Client, from: SecretKey) -> Result<Vec<Vec<u8>>, EndpointError> {
    let secret = format!("{}/{}", from.namespace, from.name);
    let api = Api::<Secret>::namespaced(client.clone(), &from.namespace);
    let found = match api.get(&from.name).await {
        Ok(found) => found,
        Err(error) => return Err(EndpointError::Secret(secret, error)),
    };
    let value = found.data.unwrap_or_default().remove(&from.key).unwrap_or_default();
    let authorities = certificates(&value.0);
    if authorities.is_empty() {
        return Err(EndpointError::NoCertificate { key: from.key, secret });
    }
    Ok(authorities)
}

/// Returns the certificates of a PEM file in DER. Other parts of the file are ignored.
fn certificates(file: &[u8]) -> Vec<Vec<u8>> {
    let parts = pem::parse_many(file).unwrap_or_default();
    parts.into_iter().filter(|part| part.tag() == "CERTIFICATE").map(pem::Pem::into_contents).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_are_authorities() {
        let part = |tag: &str, content: &str| pem::encode(&pem::Pem::new(tag, content));
        let file =
            [part("CERTIFICATE", "a"), part("EC PRIVATE KEY", "b"), part("CERTIFICATE", "c")].join("\n");
        assert_eq!(certificates(file.as_bytes()), [b"a", b"c"]);
        assert_eq!(certificates(b"-----BEGIN CERTIFICATE-----"), Vec::<Vec<u8>>::new());
        assert_eq!(certificates(&[0xff, 0]), Vec::<Vec<u8>>::new());
    }
}
