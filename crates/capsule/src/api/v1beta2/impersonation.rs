//! `CapsuleConfiguration.spec.impersonation`: who reads and writes replicated objects.

use http::Uri;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{CapsuleConfigurationSpec, ServiceAccountReference};

/// Impersonation defines who reads and writes the objects of TenantResources and
/// GlobalTenantResources.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Impersonation {
    /// endpoint is the address to which the requests of ServiceAccounts are sent, such as
    /// `https://capsule-proxy.capsule-system.svc:9001`. By default, it is the address of the API
    /// server that the manager uses. The manager authenticates itself there with its own
    /// credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = ("!self.contains('://') || self.startsWith('https://')", "must be an address that begins with https://, or a host with a port"))]
    pub endpoint: Option<String>,

    /// caSecretNamespace is the namespace of caSecretName. The default is the namespace of the
    /// manager. In another namespace, the manager needs the permission to get the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub ca_secret_namespace: Option<String>,

    /// caSecretName is the name of a Secret with the authorities that the certificate of the endpoint
    /// is verified with. By default, they are those of the API server that the manager uses. The
    /// Secret is read at each reconcile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub ca_secret_name: Option<String>,

    /// caSecretKey is the key of the certificates in caSecretName, in PEM.
    #[serde(default = "default_key")]
    #[schemars(length(max = 253))]
    pub ca_secret_key: String,

    /// skipTlsVerify accepts any certificate of the endpoint. Anyone who answers there then learns
    /// the credentials of the manager, so set it only for tests.
    #[serde(default)]
    pub skip_tls_verify: bool,

    /// globalDefaultServiceAccount is the ServiceAccount of GlobalTenantResources that name none. It
    /// has no effect without globalDefaultServiceAccountNamespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub global_default_service_account: Option<String>,

    /// globalDefaultServiceAccountNamespace is the namespace of globalDefaultServiceAccount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub global_default_service_account_namespace: Option<String>,

    /// tenantDefaultServiceAccount is the ServiceAccount of TenantResources that name none, in their
    /// own namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub tenant_default_service_account: Option<String>,
}

/// A key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// The key.
    pub key: String,
}

impl Impersonation {
    /// Returns the address for the requests of ServiceAccounts. `None`: that of the manager's API
    /// server. An address without a scheme is one of https.
    ///
    /// # Errors
    /// Returns an error if it is not an address of https. Credentials are sent to it.
    pub fn url(&self) -> Result<Option<Uri>, InvalidEndpoint> {
        let Some(endpoint) = non_empty(self.endpoint.as_ref()) else { return Ok(None) };
        let invalid = || InvalidEndpoint(endpoint.clone());
        let with_scheme =
            if endpoint.contains("://") { endpoint.clone() } else { format!("https://{endpoint}") };
        let url: Uri = with_scheme.parse().map_err(|_| invalid())?;
        let is_usable = url.scheme_str() == Some("https") && url.host().is_some() && url.query().is_none();
        if is_usable { Ok(Some(url)) } else { Err(invalid()) }
    }

    /// Returns where the authorities of the endpoint are. `None`: they are those that the manager
    /// trusts, or no certificate is verified.
    pub fn authorities(&self, manager_namespace: &str) -> Option<SecretKey> {
        let name = non_empty(self.ca_secret_name.as_ref()).filter(|_| !self.skip_tls_verify)?;
        let namespace =
            non_empty(self.ca_secret_namespace.as_ref()).unwrap_or_else(|| manager_namespace.to_owned());
        let key = if self.ca_secret_key.is_empty() { default_key() } else { self.ca_secret_key.clone() };
        Some(SecretKey { namespace, name, key })
    }

    /// Returns the default ServiceAccount of GlobalTenantResources.
    pub fn global_default(&self) -> Option<ServiceAccountReference> {
        Some(ServiceAccountReference {
            name: non_empty(self.global_default_service_account.as_ref())?,
            namespace: non_empty(self.global_default_service_account_namespace.as_ref())?,
        })
    }

    /// Returns the default ServiceAccount of TenantResources in this namespace.
    pub fn tenant_default(&self, namespace: &str) -> Option<ServiceAccountReference> {
        let name = non_empty(self.tenant_default_service_account.as_ref())?;
        Some(ServiceAccountReference { name, namespace: namespace.to_owned() })
    }
}

/// An endpoint is not an address that credentials may be sent to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.impersonation.endpoint: {0:?} is no address of https; write https://HOST:PORT")]
pub struct InvalidEndpoint(String);

impl CapsuleConfigurationSpec {
    /// Returns the settings of impersonation. Settings of another form count as unset; the schema
    /// rejects them.
    pub fn impersonation(&self) -> Impersonation {
        let settings = self.impersonation.clone().map(serde_json::from_value);
        settings.and_then(Result::ok).unwrap_or_default()
    }
}

/// Schema of [`CapsuleConfigurationSpec::impersonation`]. Unknown fields are preserved, because
/// stored configurations can have them.
pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = Impersonation::json_schema(generator);
    schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
    schema
}

/// Returns the value of a field. Capsule writes an unset field as an empty string.
fn non_empty(value: Option<&String>) -> Option<String> {
    value.filter(|value| !value.is_empty()).cloned()
}

fn default_key() -> String {
    "ca.crt".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings(value: Value) -> Impersonation {
        serde_json::from_value::<CapsuleConfigurationSpec>(json!({ "impersonation": value }))
            .unwrap()
            .impersonation()
    }

    #[test]
    fn defaults_need_name_and_namespace() {
        let both = json!({
            "globalDefaultServiceAccount": "replicator", "globalDefaultServiceAccountNamespace": "ops",
            "tenantDefaultServiceAccount": "default",
        });
        let both = settings(both);
        assert_eq!(both.global_default().unwrap().user_name(), "system:serviceaccount:ops:replicator");
        assert_eq!(both.tenant_default("oil").unwrap().user_name(), "system:serviceaccount:oil:default");
        let half = settings(json!({ "globalDefaultServiceAccount": "replicator" }));
        assert_eq!((half.global_default(), half.tenant_default("oil")), (None, None));
        assert_eq!(settings(json!({ "tenantDefaultServiceAccount": "" })).tenant_default("oil"), None);
        assert_eq!(settings(json!({ "skipTlsVerify": "yes" })), Impersonation::default());
    }

    #[test]
    fn endpoint_is_an_address_of_https() {
        let url = |endpoint: &str| settings(json!({ "endpoint": endpoint })).url();
        assert_eq!(url(""), Ok(None));
        let proxy: Uri = "https://proxy.example:9001".parse().unwrap();
        assert_eq!(url("https://proxy.example:9001"), Ok(Some(proxy.clone())));
        assert_eq!(url("proxy.example:9001"), Ok(Some(proxy)));
        for endpoint in ["http://proxy.example", "https://", "ftp://a", "a b", "https://a?b=c", "https:///x"]
        {
            assert!(url(endpoint).unwrap_err().to_string().contains(endpoint), "{endpoint}");
        }
    }

    #[test]
    fn authorities_are_in_the_namespace_of_the_manager_unless_another_is_set() {
        let found = |value: Value| settings(value).authorities("ensemble-system");
        let secret = |namespace: &str, key: &str| {
            let [namespace, name, key] = [namespace, "ca", key].map(str::to_owned);
            Some(SecretKey { namespace, name, key })
        };
        assert_eq!(found(json!({ "caSecretNamespace": "a" })), None);
        assert_eq!(found(json!({ "caSecretName": "ca" })), secret("ensemble-system", "ca.crt"));
        let other = json!({ "caSecretName": "ca", "caSecretNamespace": "a", "caSecretKey": "tls.crt" });
        assert_eq!(found(other), secret("a", "tls.crt"));
        assert_eq!(found(json!({ "caSecretName": "ca", "skipTlsVerify": true })), None);
    }

    #[test]
    fn user_names_and_service_accounts_correspond() {
        let account = ServiceAccountReference { name: "a".to_owned(), namespace: "b".to_owned() };
        assert_eq!(ServiceAccountReference::of_user(&account.user_name()), Some(account));
        assert_eq!(ServiceAccountReference::of_user("alice"), None);
    }
}
