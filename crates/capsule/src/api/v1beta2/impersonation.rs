//! `CapsuleConfiguration.spec.impersonation`: who reads and writes replicated objects.

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{CapsuleConfigurationSpec, ServiceAccountReference};

/// Impersonation defines who reads and writes the objects of TenantResources and
/// GlobalTenantResources.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Impersonation {
    /// endpoint has no effect. The manager sends all requests to the API server that it is connected
    /// to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub endpoint: Option<String>,

    /// caSecretNamespace has no effect. It is the namespace of the Secret with the authority of the
    /// endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub ca_secret_namespace: Option<String>,

    /// caSecretName has no effect. It is the name of the Secret with the authority of the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub ca_secret_name: Option<String>,

    /// caSecretKey has no effect. It is the key in the Secret with the authority of the endpoint.
    #[serde(default = "default_key")]
    #[schemars(length(max = 253))]
    pub ca_secret_key: String,

    /// skipTlsVerify has no effect. The manager always verifies the API server.
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

impl Impersonation {
    /// Returns the default ServiceAccount of GlobalTenantResources.
    pub fn global_default(&self) -> Option<ServiceAccountReference> {
        let set = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        Some(ServiceAccountReference {
            name: set(&self.global_default_service_account)?,
            namespace: set(&self.global_default_service_account_namespace)?,
        })
    }

    /// Returns the default ServiceAccount of TenantResources in this namespace.
    pub fn tenant_default(&self, namespace: &str) -> Option<ServiceAccountReference> {
        let name = self.tenant_default_service_account.clone().filter(|name| !name.is_empty())?;
        Some(ServiceAccountReference { name, namespace: namespace.to_owned() })
    }
}

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
    fn user_names_and_service_accounts_correspond() {
        let account = ServiceAccountReference { name: "a".to_owned(), namespace: "b".to_owned() };
        assert_eq!(ServiceAccountReference::of_user(&account.user_name()), Some(account));
        assert_eq!(ServiceAccountReference::of_user("alice"), None);
    }
}
