//! The identity that reads and writes replicated objects. Pure.

use capsule::api::v1beta2::{Impersonation, ServiceAccountReference};
use operator_core::environment::{Setting, Values};

use crate::resource::{Reach, Replication};

/// Setting that lets TenantResources without a ServiceAccount act as the manager.
pub(crate) const ACT_AS_MANAGER: Setting = Setting {
    flag: "tenant-resources-act-as-manager",
    env: "TENANT_RESOURCES_ACT_AS_MANAGER",
    default: "false",
    values: Values::OneOf(&["true", "false"]),
    help: "Let TenantResources without a ServiceAccount act with the permissions of the manager",
};

/// Who reads and writes the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A ServiceAccount, which the manager impersonates.
    Account(ServiceAccountReference),
    /// The manager itself.
    Manager,
}

/// Reason why nobody can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no ServiceAccount acts for this TenantResource; set spec.serviceAccount, or ask an administrator to set \
     spec.impersonation.tenantDefaultServiceAccount of the CapsuleConfiguration"
)]
pub(crate) struct NoAccount;

/// Returns who acts: the ServiceAccount of the spec, that of the configuration, or the manager.
///
/// # Errors
/// Returns an error for a TenantResource without a ServiceAccount, unless `act_as_manager` is set:
/// with the permissions of the manager, a Tenant owner could write what they cannot
/// (CVE-2026-22872).
pub(crate) fn identity<K: Replication>(
    object: &K,
    defaults: &Impersonation,
    act_as_manager: bool,
) -> Result<Identity, NoAccount> {
    if let Some(account) = object.account(defaults) {
        return Ok(Identity::Account(account));
    }
    match object.reach() {
        Reach::TenantOf(_) if !act_as_manager => Err(NoAccount),
        _ => Ok(Identity::Manager),
    }
}

#[cfg(test)]
mod tests {
    use capsule::api::v1beta2::{GlobalTenantResource, TenantResource};
    use serde_json::{Value, json};

    use super::*;

    fn local(account: Option<&str>) -> TenantResource {
        let account = account.map(|name| json!({ "name": name }));
        let spec = json!({ "resources": [], "serviceAccount": account });
        serde_json::from_value(json!({ "metadata": { "name": "a", "namespace": "oil-dev" }, "spec": spec }))
            .unwrap()
    }

    fn global(account: Value) -> GlobalTenantResource {
        let spec = json!({ "resources": [], "serviceAccount": account });
        serde_json::from_value(json!({ "metadata": { "name": "a" }, "spec": spec })).unwrap()
    }

    fn defaults() -> Impersonation {
        serde_json::from_value(json!({
            "tenantDefaultServiceAccount": "default", "globalDefaultServiceAccount": "replicator",
            "globalDefaultServiceAccountNamespace": "ops",
        }))
        .unwrap()
    }

    fn user(identity: Result<Identity, NoAccount>) -> String {
        match identity {
            Ok(Identity::Account(account)) => account.user_name(),
            Ok(Identity::Manager) => "manager".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn spec_comes_before_configuration() {
        let none = Impersonation::default();
        assert_eq!(user(identity(&local(Some("a")), &defaults(), false)), "system:serviceaccount:oil-dev:a");
        assert_eq!(user(identity(&local(None), &defaults(), false)), "system:serviceaccount:oil-dev:default");
        let account = json!({ "name": "a", "namespace": "b" });
        assert_eq!(user(identity(&global(account), &defaults(), false)), "system:serviceaccount:b:a");
        let unset = || global(Value::Null);
        assert_eq!(user(identity(&unset(), &defaults(), false)), "system:serviceaccount:ops:replicator");
        assert_eq!(user(identity(&unset(), &none, false)), "manager");
    }

    #[test]
    fn cve_2026_22872_a_tenant_resource_does_not_act_as_the_manager() {
        let none = Impersonation::default();
        assert!(user(identity(&local(None), &none, false)).contains("spec.serviceAccount"));
        assert_eq!(user(identity(&local(None), &none, true)), "manager");
    }
}
