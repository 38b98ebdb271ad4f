//! Owners of a Tenant by the configuration: administrators, and promoted ServiceAccounts.
//!
//! A ServiceAccount in a namespace of a Tenant with the label `owner.projectcapsule.dev/promote=true`
//! owns the Tenant, if the configuration and the Tenant allow it.

use std::sync::Arc;

use capsule::{
    api::v1beta2::{CapsuleConfigurationSpec, OwnerKind, OwnerStatus, Tenant, UserSpec},
    membership::referenced_tenants,
};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::ResourceExt;
use operator_core::{
    ObjectKey,
    informer::{Index, Informer, Selection},
};

/// Selects the promoted ServiceAccounts.
pub(crate) const PROMOTED: Selection = Selection::Label("owner.projectcapsule.dev/promote=true");

/// Returns whether ServiceAccounts can own the Tenant by promotion.
pub(crate) fn allows_promotion(configuration: &CapsuleConfigurationSpec, tenant: &Tenant) -> bool {
    let permissions = tenant.spec.permissions.as_ref();
    configuration.allow_service_account_promotion
        && permissions.is_none_or(|permissions| permissions.allow_owner_promotion)
}

/// Promoted ServiceAccounts by namespace.
pub(crate) struct PromotedAccounts {
    accounts: Informer<ServiceAccount>,
    by_namespace: Index<ServiceAccount, String>,
}

impl PromotedAccounts {
    /// Indexes a cache of ServiceAccounts that [`PROMOTED`] selects.
    pub(crate) fn new(accounts: Informer<ServiceAccount>) -> Self {
        let namespace = |account: &ServiceAccount| account.namespace().into_iter().collect();
        Self { by_namespace: accounts.store().index(namespace), accounts }
    }

    /// Returns whether a ServiceAccount is promoted.
    pub(crate) fn contains(&self, namespace: &str, name: &str) -> bool {
        self.accounts.store().get(&ObjectKey::namespaced(namespace, name)).is_some()
    }

    /// Returns all promoted ServiceAccounts.
    pub(crate) fn list(&self) -> Vec<Arc<ServiceAccount>> {
        self.accounts.store().list()
    }

    /// Returns the owners of a Tenant by the configuration, sorted by name: administrators, then
    /// promoted ServiceAccounts in its namespaces.
    pub(crate) fn owners<'n>(
        &self,
        configuration: &CapsuleConfigurationSpec,
        tenant: &Tenant,
        namespaces: impl IntoIterator<Item = &'n Arc<Namespace>>,
    ) -> Vec<OwnerStatus> {
        let roles = &configuration.rbac;
        let administrator = |user: &UserSpec| OwnerStatus {
            kind: user.kind,
            name: user.name.clone(),
            cluster_roles: roles.administration_cluster_roles.clone(),
        };
        let mut owners: Vec<_> = configuration.administrators.iter().map(administrator).collect();
        if !allows_promotion(configuration, tenant) {
            return owners;
        }
        let accounts =
            namespaces.into_iter().flat_map(|namespace| self.by_namespace.get(&namespace.name_any()));
        let mut names: Vec<_> = accounts.map(|account| user_name(&account)).collect();
        names.sort();
        owners.extend(names.into_iter().map(|name| OwnerStatus {
            kind: OwnerKind::ServiceAccount,
            name,
            cluster_roles: roles.promotion_cluster_roles.clone(),
        }));
        owners
    }
}

/// Returns the user name of a ServiceAccount.
pub(crate) fn user_name(account: &ServiceAccount) -> String {
    format!("system:serviceaccount:{}:{}", account.namespace().unwrap_or_default(), account.name_any())
}

/// Returns the Tenants that the namespace of a ServiceAccount references.
pub(crate) fn tenants_of_account(
    account: &ServiceAccount,
    namespaces: &Informer<Namespace>,
) -> Vec<ObjectKey> {
    let key = ObjectKey::cluster(&account.namespace().unwrap_or_default());
    let namespace = namespaces.store().get(&key);
    let tenants = namespace.map(|namespace| referenced_tenants(&namespace.metadata)).unwrap_or_default();
    tenants.iter().map(|tenant| ObjectKey::cluster(tenant)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn promotion_must_be_allowed_by_configuration_and_tenant() {
        let allows = |configuration: Value, tenant: Value| {
            let tenant = json!({ "metadata": { "name": "oil" }, "spec": tenant });
            allows_promotion(
                &serde_json::from_value(configuration).unwrap(),
                &serde_json::from_value(tenant).unwrap(),
            )
        };
        let on = || json!({ "allowServiceAccountPromotion": true });
        assert!(allows(on(), json!({})));
        assert!(allows(on(), json!({ "permissions": {} })));
        assert!(!allows(on(), json!({ "permissions": { "allowOwnerPromotion": false } })));
        assert!(!allows(json!({}), json!({ "permissions": { "allowOwnerPromotion": true } })));
    }
}
