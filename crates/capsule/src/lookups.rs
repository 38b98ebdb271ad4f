//! What the caches say about the configuration, and about the Tenant of a namespace.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use operator_core::{ObjectKey, informer::Store};

use crate::{
    api::v1beta2::{CONFIGURATION_NAME, CapsuleConfiguration, CapsuleConfigurationSpec, Tenant},
    membership::{check_membership, tenant_label},
};

/// Returns the effective configuration. Without one, every setting has its default.
pub fn configuration(configurations: &Store<CapsuleConfiguration>) -> CapsuleConfigurationSpec {
    let found = configurations.get(&ObjectKey::cluster(CONFIGURATION_NAME));
    found.map(|configuration| configuration.spec.clone()).unwrap_or_default()
}

/// Returns the Tenant that a namespace is a member of: both its label and its owner reference name
/// it.
pub fn tenant_of(
    namespace: &Namespace,
    tenants: &Store<Tenant>,
    manager_namespace: &str,
) -> Option<Arc<Tenant>> {
    let name = tenant_label(&namespace.metadata)?;
    let tenant = tenants.get(&ObjectKey::cluster(name))?;
    check_membership(&namespace.metadata, &tenant, manager_namespace).ok()?;
    Some(tenant)
}
